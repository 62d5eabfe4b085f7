"""Keys for tests: made in the store of a server that runs, as `langlauf keys create` does from another process."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from langlauf.auth.keyring import CreatedKey, KeyService
from langlauf.bootstrap import open_store_at
from langlauf.domain.access import DEFAULT_SCOPES, Scope
from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.store.tools.location import parse_location

T = TypeVar("T")
#: Seconds to wait for the effect of a change of keys. Five are promised; a busy machine takes longer.
EFFECT_SECONDS = 60.0
OPERATOR = "operator-token-of-a-test"


def with_keys(store: Path | str, use: Callable[[KeyService], Awaitable[T]]) -> T:
    """Use the keys of a store, a file or a database, beside the server that has it open."""

    async def run() -> T:
        opened = await open_store_at(parse_location(str(store)), Hints())
        try:
            return await use(KeyService(opened.access, opened.clock))
        finally:
            await opened.close()

    return asyncio.run(run())


def make_key(
    store: Path | str, org: str, *scopes: Scope, expires_at: Instant | None = None, name: str = "of a test"
) -> CreatedKey:
    """A new key; without scopes it has the usual ones."""
    granted = frozenset(scopes) or DEFAULT_SCOPES
    return with_keys(store, lambda keys: keys.create(org, name=name, scopes=granted, expires_at=expires_at))


def revoke_key(store: Path | str, key_id: str) -> None:
    """Ends a key."""
    with_keys(store, lambda keys: keys.revoke(key_id, org_id=None))


def bearer(text: str, **more: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"Authorization": f"Bearer {text}", **more}
