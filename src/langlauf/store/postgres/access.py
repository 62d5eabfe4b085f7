"""API keys, ended sessions and signing secrets in PostgreSQL."""

from collections.abc import Mapping
from typing import Literal, cast

from langlauf.clock import new_secret
from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.instant import Instant
from langlauf.store.admin import RecordOwner, SessionEnd
from langlauf.store.postgres.batch import storable_or_none
from langlauf.store.postgres.pool import PooledStore
from langlauf.store.rows import key_from, scopes_text


class PostgresAccess(PooledStore):
    """API keys, ended sessions and signing secrets."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        key = new.key
        values = (key.key_id, key.org_id, key.name, new.secret_hash, scopes_text(key.scopes), key.expires_at)
        return await self._key("create_key", self._at(), *values)

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        return await self._key("revoke_key", self._at(), storable_or_none(key_id), org_id)

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        return [key_from(row) for row in await self._pool.rows("list_keys", org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._pool.rows("key_changes", after)
        changed = [HashedKey(key_from(key), secret_hash) for key, secret_hash, _ in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        await self._pool.call("note_key_uses", list(uses), list(uses.values()))

    async def signing_secret(self, purpose: str) -> bytes:
        return cast("bytes", await self._pool.call("keep_secret", self._at(), purpose, new_secret()))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        await self._pool.call("end_session", self._at(), session_id, expires_at)

    async def session_ends(self, after: int) -> list[SessionEnd]:
        return [SessionEnd(*row) for row in await self._pool.rows("session_ends", after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        rows = await self._pool.rows("owners", kind, storable_or_none(record_id))
        return RecordOwner(*rows[0]) if len(rows) == 1 else None

    async def _key(self, function: str, *values: object) -> ApiKey | None:
        rows = await self._pool.rows(function, *values)
        return key_from(rows[0]) if rows else None
