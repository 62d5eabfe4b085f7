"""The clock of a store: it does not step, does not run back, and is the same for all processes of the machine.

A wall clock is set by people and programs. A step forward would lose every lease, with a step back none would
end. So the time of a store is the time since boot, which cannot be set, plus a shift. The first process
that opens the store after a boot fixes the shift by its wall clock; the store keeps it, and every
process of the same boot uses it, whatever the wall clock did meanwhile.

Where the wall clock has moved ahead, the store follows it while no lease is live. Where it has moved back, the
store stays ahead until the next boot.
"""

from functools import cache
from typing import Any, cast

import apsw

from langlauf.clock import TimeSource, machine_time
from langlauf.domain.instant import SECOND, Instant
from langlauf.store.queries import load

#: How far the wall clock may be ahead before the store's clock follows it.
TOLERANCE = 2 * SECOND


def settled(shift: int | None, *, since_boot: Instant, wall: Instant, newest: Instant, busy: bool) -> int:
    """Return the shift to use: the stored one, if any, moved forward where that is due and no lease is live."""
    if shift is None:
        return max(wall, newest) - since_boot
    shift = max(shift, newest - since_boot)
    ahead = wall - (since_boot + shift)
    return shift + ahead if ahead > TOLERANCE and not busy else shift


class SteadyClock:
    """The time of one store. It must be settled before its first use."""

    def __init__(self, source: TimeSource) -> None:
        self._source = source
        self._shift = 0

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC, by the store's own reckoning."""
        return self._source.since_boot() + self._shift

    @property
    def slow(self) -> bool:
        """Whether the wall clock has moved ahead."""
        return self._source.wall() - self.now() > TOLERANCE

    def follow(self, connection: apsw.Connection) -> None:
        """Read the stored shift inside a write, since another process may have moved it."""
        kept = self._kept(connection)
        if kept is not None:
            self._shift = kept

    def settle(self, connection: apsw.Connection) -> float:
        """Fix the shift, or move it forward where that is due; return by how many seconds it moved."""
        kept = self._kept(connection)
        if kept is not None and self._settled(connection, kept) == kept:
            self._shift = kept
            return 0.0
        connection.execute("BEGIN IMMEDIATE")
        try:
            kept = self._kept(connection)  # another process may have been faster
            self._shift = self._settled(connection, kept)
            connection.execute(_queries()["clock_set"], {"boot_id": self._source.boot_id, "shift": self._shift})
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return 0.0 if kept is None else (self._shift - kept) / SECOND

    def look(self, connection: apsw.Connection) -> Instant:
        """Return the time of a store that is only read: nothing is fixed or moved."""
        kept = self._kept(connection)
        self._shift = self._settled(connection, None) if kept is None else kept
        return self.now()

    def _kept(self, connection: apsw.Connection) -> int | None:
        shift: Any = connection.execute(_queries()["clock_shift"], {"boot_id": self._source.boot_id}).get
        return cast("int | None", shift)

    def _settled(self, connection: apsw.Connection, kept: int | None) -> int:
        newest: Any = connection.execute(_queries()["clock_newest"]).get
        since_boot, wall = self._source.since_boot(), self._source.wall()
        busy: Any = connection.execute(_queries()["clock_busy"], {"now": since_boot + (kept or 0)}).get
        return settled(kept, since_boot=since_boot, wall=wall, newest=newest, busy=bool(busy))


def clock_of(connection: apsw.Connection) -> SteadyClock:
    """Return the settled clock of an open store: due work must not wait for a wall clock that is ahead."""
    clock = SteadyClock(machine_time())
    clock.settle(connection)
    return clock


@cache
def _queries() -> dict[str, str]:
    return load("langlauf.store.sqlite", "clock.sql")
