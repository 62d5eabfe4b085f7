"""What estimates look at: all that waits and runs, and what runs took lately."""

from collections.abc import Mapping
from typing import Any

import apsw

from langlauf.domain.eta import Run
from langlauf.domain.instant import Instant
from langlauf.domain.waiting import Lane, Load


def paces(connection: apsw.Connection, queries: Mapping[str, str]) -> dict[str, float]:
    """The mean of recent runs, by analysis."""
    found: list[Any] = connection.execute(queries["read_paces"]).fetchall()
    return dict(found)


def load(connection: apsw.Connection, queries: Mapping[str, str], now: Instant) -> Load:
    """As many rows as lanes that wait and jobs that run, whatever waits in a lane."""

    def rows(query: str) -> list[Any]:
        return connection.execute(queries[query], {"now": now}).fetchall()

    [(virtual_now,)] = rows("virtual_now")
    lanes = [Lane(*row) for row in rows("all_waiting_lanes")]
    runs = [Run(*row) for row in rows("all_runs")]
    return Load(now, lanes, runs, paces(connection, queries), virtual_now)
