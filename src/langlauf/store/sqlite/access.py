"""Keys and ends of sessions in SQLite, and what signatures are made with."""

from collections.abc import Mapping
from functools import partial
from typing import Literal, cast

from langlauf.clock import new_secret
from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.instant import Instant
from langlauf.store.admin import Owner, SessionEnd
from langlauf.store.rows import key_from, scopes_text
from langlauf.store.sqlite.desk import Desk
from langlauf.store.sqlite.transaction import Transaction

_COLUMNS = len(ApiKey.__struct_fields__)
_FIND = {"job": "find_job", "result": "find_result"}


def create_key(tx: Transaction, new: HashedKey) -> ApiKey | None:
    """Keeps the key unless its id is taken."""
    key = new.key
    made = tx.run(
        "create_key",
        key_id=key.key_id,
        org_id=key.org_id,
        name=key.name,
        secret_hash=new.secret_hash,
        scopes=scopes_text(key.scopes),
        expires_at=key.expires_at,
        now=tx.now,
    )
    return _one(tx, key.key_id, None) if made else None


def revoke_key(tx: Transaction, key_id: str, org_id: str | None) -> ApiKey | None:
    """Ends the key unless it has ended. For one that is not there nothing is written."""
    if _one(tx, key_id, org_id) is None:
        return None
    tx.run("revoke_key", key_id=key_id, org_id=org_id, now=tx.now)
    return _one(tx, key_id, org_id)


def note_key_uses(tx: Transaction, uses: Mapping[str, Instant]) -> None:
    """Remembers the newest use of each."""
    tx.run_many("note_key_use", [{"key_id": key_id, "at": at} for key_id, at in uses.items()])


def end_session(tx: Transaction, session_id: str, expires_at: Instant) -> None:
    """Notes the end, and forgets those that are over by themselves."""
    tx.run("forget_session_ends", now=tx.now)
    tx.run("end_session", session_id=session_id, expires_at=expires_at)


def keep_secret(tx: Transaction, purpose: str, secret: bytes) -> bytes:
    """The secret that is kept, which is the first one anybody brought."""
    tx.run("keep_secret", purpose=purpose, secret=secret, now=tx.now)
    [(kept,)] = tx.rows("read_secret", purpose=purpose)
    return cast("bytes", kept)


class SqliteAccess(Desk):
    """Keys of orgs, over the connections of a store."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        return await self._change(partial(create_key, new=new))

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        return await self._change(partial(revoke_key, key_id=key_id, org_id=org_id), org_id)

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        query = "read_all_keys" if org_id is None else "read_keys_of_org"
        return [key_from(row) for row in await self._rows(query, org_id=org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._rows("read_key_changes", after=after)
        changed = [HashedKey(key_from(row[:_COLUMNS]), row[_COLUMNS]) for row in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        await self._change(partial(note_key_uses, uses=uses))

    async def signing_secret(self, purpose: str) -> bytes:
        return await self._change(partial(keep_secret, purpose=purpose, secret=new_secret()))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        await self._change(partial(end_session, session_id=session_id, expires_at=expires_at))

    async def session_ends(self, after: int) -> list[SessionEnd]:
        return [SessionEnd(*row) for row in await self._rows("read_session_ends", after=after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> Owner | None:
        rows = await self._rows(_FIND[kind], id=record_id)
        return Owner(*rows[0]) if len(rows) == 1 else None


def _one(tx: Transaction, key_id: str, org_id: str | None) -> ApiKey | None:
    row = tx.one("read_key", key_id=key_id, org_id=org_id)
    return None if row is None else key_from(row)
