"""What the small parts of a store have in common: reads by name, and changes that need no record of their own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import apsw
import msgspec

from langlauf.store.sqlite.lists import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

T = TypeVar("T")


class Change(msgspec.Struct, frozen=True):
    """Something rare to write: what it does, and whose turn it takes."""

    run: Callable[[Transaction], Any]
    org_id: str | None = None


def make_change(tx: Transaction, change: Change) -> Any:
    """Does it."""
    return change.run(tx)


class Desk:
    """A part of a store, over its connections."""

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._queries = queries

    async def _rows(self, query: str, /, **values: Any) -> list[Row]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._queries[query], values).fetchall()

        return await self._read(read)

    async def _change(self, change: Callable[[Transaction], T], org_id: str | None = None) -> T:
        return cast("T", await self._write(Change(change, org_id)))
