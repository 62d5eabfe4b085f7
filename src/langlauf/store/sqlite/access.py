"""Keys and ends of sessions in SQLite, and what signatures are made with."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast

import apsw
import msgspec

from langlauf.clock import new_secret
from langlauf.domain.instant import Instant
from langlauf.domain.keys import HashedKey, Key, KeyChanges
from langlauf.store.access import Owner, SessionEnd
from langlauf.store.keys import key_from, scopes_text
from langlauf.store.sqlite.lists import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

_COLUMNS = len(Key.__struct_fields__)
_FIND = {"job": "find_job", "result": "find_result"}


class CreateKey(msgspec.Struct, frozen=True):
    """A key to keep."""

    new: HashedKey


class RevokeKey(msgspec.Struct, frozen=True):
    """A key to end; with an org, only one of that org."""

    key_id: str
    org_id: str | None


class NoteKeyUses(msgspec.Struct, frozen=True):
    """When keys were used."""

    uses: Mapping[str, Instant]


class EndSession(msgspec.Struct, frozen=True):
    """A session that was ended before its time."""

    session_id: str
    expires_at: Instant


class KeepSecret(msgspec.Struct, frozen=True):
    """A secret that is only kept where there is none yet."""

    purpose: str
    secret: bytes


def create_key(tx: Transaction, wish: CreateKey) -> Key | None:
    """Keeps the key unless its id is taken."""
    key = wish.new.key
    made = tx.run(
        "create_key",
        key_id=key.key_id,
        org_id=key.org_id,
        name=key.name,
        secret_hash=wish.new.secret_hash,
        scopes=scopes_text(key.scopes),
        expires_at=key.expires_at,
        now=tx.now,
    )
    return _one(tx, key.key_id, None) if made else None


def revoke_key(tx: Transaction, wish: RevokeKey) -> Key | None:
    """Ends the key unless it has ended. For one that is not there nothing is written."""
    if _one(tx, wish.key_id, wish.org_id) is None:
        return None
    tx.run("revoke_key", key_id=wish.key_id, org_id=wish.org_id, now=tx.now)
    return _one(tx, wish.key_id, wish.org_id)


def note_key_uses(tx: Transaction, wish: NoteKeyUses) -> None:
    """Remembers the newest use of each."""
    tx.run_many("note_key_use", [{"key_id": key_id, "at": at} for key_id, at in wish.uses.items()])


def end_session(tx: Transaction, wish: EndSession) -> None:
    """Notes the end, and forgets those that are over by themselves."""
    tx.run("forget_session_ends", now=tx.now)
    tx.run("end_session", session_id=wish.session_id, expires_at=wish.expires_at)


def keep_secret(tx: Transaction, wish: KeepSecret) -> bytes:
    """The secret that is kept, which is the first one anybody brought."""
    tx.run("keep_secret", purpose=wish.purpose, secret=wish.secret, now=tx.now)
    [(secret,)] = tx.rows("read_secret", purpose=wish.purpose)
    return cast("bytes", secret)


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {
    CreateKey: create_key,
    RevokeKey: revoke_key,
    NoteKeyUses: note_key_uses,
    EndSession: end_session,
    KeepSecret: keep_secret,
}


class SqliteAccess:
    """Keys of orgs, over the connections of a store."""

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._queries = queries

    async def create_key(self, new: HashedKey) -> Key | None:
        return cast("Key | None", await self._write(CreateKey(new)))

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> Key | None:
        return cast("Key | None", await self._write(RevokeKey(key_id, org_id)))

    async def keys(self, org_id: str | None) -> list[Key]:
        query = "read_all_keys" if org_id is None else "read_keys_of_org"
        return [key_from(row) for row in await self._rows(query, org_id=org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._rows("read_key_changes", after=after)
        changed = [HashedKey(key_from(row[:_COLUMNS]), row[_COLUMNS]) for row in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        await self._write(NoteKeyUses(uses))

    async def signing_secret(self, purpose: str) -> bytes:
        return cast("bytes", await self._write(KeepSecret(purpose, new_secret())))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        await self._write(EndSession(session_id, expires_at))

    async def session_ends(self, after: int) -> list[SessionEnd]:
        return [SessionEnd(*row) for row in await self._rows("read_session_ends", after=after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> Owner | None:
        rows = await self._rows(_FIND[kind], id=record_id)
        return Owner(*rows[0]) if len(rows) == 1 else None

    async def _rows(self, query: str, /, **values: Any) -> list[Row]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._queries[query], values).fetchall()

        return await self._read(read)


def _one(tx: Transaction, key_id: str, org_id: str | None) -> Key | None:
    row = tx.one("read_key", key_id=key_id, org_id=org_id)
    return None if row is None else key_from(row)
