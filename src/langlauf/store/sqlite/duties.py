"""Duties in SQLite."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import apsw
import msgspec

from langlauf.domain.duties import DutyDone
from langlauf.store.sqlite.lists import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction


class NoteDuty(msgspec.Struct, frozen=True):
    """A duty that has just succeeded."""

    name: str
    host: str


def note_duty(tx: Transaction, done: NoteDuty) -> None:
    """Keeps its time."""
    tx.run("note_duty", now=tx.now, name=done.name, host=done.host)


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {NoteDuty: note_duty}


class SqliteDuties:
    """When upkeep last succeeded, over the connections of a store."""

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._query = queries["all_duties"]

    async def note(self, name: str, host: str) -> None:
        await self._write(NoteDuty(name, host))

    async def seen(self) -> list[DutyDone]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._query).fetchall()

        return [DutyDone(*row) for row in await self._read(read)]
