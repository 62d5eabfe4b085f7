"""The writer's cache between transactions, valid while no other process writes."""

from collections.abc import Mapping
from typing import Any

import apsw

#: Entries of each kind; beyond that the cache is dropped.
_MOST_KEPT = 10_000


class WriterCache:
    """Numbers of orgs and analyses, and counts. The cache is dropped when a transaction fails.

    Numbers of names never change: they stay valid after a write of another process.
    """

    def __init__(self, known: "WriterCache | None" = None) -> None:
        self._version: int | None = None
        self.orgs: dict[str, int] = known.orgs if known else {}
        self.org_ids: dict[int, str] = known.org_ids if known else {}
        self.analyses: dict[str, int] = known.analyses if known else {}
        self.analysis_names: dict[int, str] = known.analysis_names if known else {}
        #: how many jobs wait of an org, of an analysis, and in all
        self.waiting_orgs: dict[int, int] = {}
        self.waiting_analyses: dict[int, int] = {}
        self.waiting: int | None = None
        #: the last ticket of a lane and class, and the last feed position of an org
        self.tickets: dict[tuple[int, int, int], int] = {}
        self.feed_places: dict[int, int] = {}
        #: the orgs with webhook endpoints; None where that is not known
        self.orgs_with_endpoints: frozenset[str] | None = None
        #: whether any job has a subscription
        self.any_subscriptions: bool | None = None
        #: how many jobs run, including expired leases that are not swept yet
        self.running: int | None = None
        #: the key of the newest job
        self.last_job: int | None = None
        #: org, analysis and end of each pause
        self.pauses: tuple[tuple[str, str, int | None], ...] | None = None

    def forget(self) -> None:
        """Drop the cache."""
        vars(self).update(vars(WriterCache()))

    def follow(self, connection: apsw.Connection) -> bool:
        """Drop all but names where another connection has written, and return whether; call it in a transaction."""
        if connection.data_version() == self._version:
            if max(len(self.orgs), len(self.tickets), len(self.feed_places)) > _MOST_KEPT:
                self.forget()
            return False
        vars(self).update(vars(WriterCache(self)))
        return True

    def committed(self, connection: apsw.Connection) -> None:
        """Record that the cache matches what was just committed."""
        self._version = connection.data_version()

    def org(self, connection: apsw.Connection, queries: Mapping[str, str], org_id: str, *, make: bool) -> int:
        """Return the number of an org; 0 where it has none and none is made."""
        number = _looked_up(connection, queries, "org", org_id, make=make)
        if number is None:
            return 0
        self.orgs[org_id] = number
        self.org_ids[number] = org_id
        return number

    def analysis(self, connection: apsw.Connection, queries: Mapping[str, str], name: str, *, make: bool) -> int:
        """Return the number of an analysis; -1 where it has none and none is made."""
        number = _looked_up(connection, queries, "analysis", name, make=make)
        if number is None:
            return -1
        self.analyses[name] = number
        self.analysis_names[number] = name
        return number


def _looked_up(
    connection: apsw.Connection, queries: Mapping[str, str], kind: str, name: str, *, make: bool
) -> int | None:
    found: list[Any] = connection.execute(queries[f"find_{kind}"], (name,)).fetchall()
    if not found and make:
        found = connection.execute(queries[f"make_{kind}"], (name,)).fetchall()
    return int(found[0][0]) if found else None
