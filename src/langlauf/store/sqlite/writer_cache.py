"""What a writer remembers between transactions, so that it need not ask for it each time, while nobody else writes."""

from collections.abc import Mapping
from typing import Any

import apsw

#: Of each kind; what is over it is forgotten and looked up again.
_MOST_KEPT = 10_000


class WriterCache:
    """Numbers that stand for names, and counts. All is forgotten when a transaction came to nothing.

    Names keep their numbers for ever: they outlast a write of another process.
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
        #: the last ticket of a lane and class, and the last place in the feed of an org
        self.tickets: dict[tuple[int, int, int], int] = {}
        self.feed_places: dict[int, int] = {}
        #: the orgs that want to be called; None where that is not known
        self.listening: frozenset[str] | None = None
        #: whether a submission asked for somebody to be told
        self.any_wishes: bool | None = None
        #: how many jobs run, with those whose lease has ended and that no sweep has taken yet
        self.running: int | None = None
        #: the key of the newest job
        self.last_job: int | None = None

    def forget(self) -> None:
        """Everything is looked up again."""
        vars(self).update(vars(WriterCache()))

    def follow(self, connection: apsw.Connection) -> bool:
        """Forgets all but names where another connection has written; asked inside a transaction. True: it was so."""
        if connection.data_version() == self._version:
            if max(len(self.orgs), len(self.tickets), len(self.feed_places)) > _MOST_KEPT:
                self.forget()
            return False
        vars(self).update(vars(WriterCache(self)))
        return True

    def committed(self, connection: apsw.Connection) -> None:
        """Notes that what is known is what was just written."""
        self._version = connection.data_version()

    def org(self, connection: apsw.Connection, queries: Mapping[str, str], org_id: str, *, make: bool) -> int:
        """The number of an org; 0 where it has none and none is made."""
        number = _looked_up(connection, queries, "org", org_id, make=make)
        if number is None:
            return 0
        self.orgs[org_id] = number
        self.org_ids[number] = org_id
        return number

    def analysis(self, connection: apsw.Connection, queries: Mapping[str, str], name: str, *, make: bool) -> int:
        """The number of an analysis; -1 where it has none and none is made."""
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
