"""One write transaction: what its steps share, and the rows that are appended together at its end."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import apsw
import msgspec

from langlauf.clock import new_id
from langlauf.domain.attempt import Lease, Partial
from langlauf.domain.event import ActorType, Event, EventType
from langlauf.domain.instant import Instant, to_text
from langlauf.domain.job import Job
from langlauf.domain.notification import TEMPLATES, dedupe_key
from langlauf.domain.outbound import OUTBOUND
from langlauf.domain.outcome import Completed
from langlauf.domain.result import SCHEMA_VERSION, ResultKind
from langlauf.domain.state import Status
from langlauf.domain.views import JobView
from langlauf.store.rows import job_from, json_text

Row = tuple[Any, ...]
#: Of a message for people: nobody has seen it, and it goes nowhere.
_UNREAD_AND_STAYING = (None, None, None, None, None, 0)
#: How much the newest run counts in the mean of recent runs.
_NEWEST_RUN_WEIGHT = 0.2


class Transaction:
    """Runs named queries at one instant. Rows that nothing reads back before the commit are appended set-wise."""

    def __init__(self, connection: apsw.Connection, queries: Mapping[str, str], now: Instant) -> None:
        self.connection = connection
        self.now = now
        self._queries = queries
        self._appended: defaultdict[str, list[Row]] = defaultdict(list)
        self._lanes: Counter[tuple[str, str]] = Counter()
        self._paces: defaultdict[str, list[float]] = defaultdict(list)
        self._waiting_orgs: dict[str, int] = {}
        self._waiting_all: int | None = None
        self._changed_orgs: Counter[str] = Counter()
        self._changed_all = 0
        self._tickets: Counter[tuple[str, str, str]] = Counter()
        self._feed_places: dict[str, Instant | None] = {}

    @cached_property
    def _now_text(self) -> str:
        return to_text(self.now)

    def query(self, name: str) -> str:
        """The text of a query."""
        return self._queries[name]

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        """All rows of a query."""
        return self.connection.execute(self._queries[query], values).fetchall()

    def one(self, query: str, /, **values: Any) -> Row | None:
        """The first row of a query, if there is one."""
        found = self.connection.execute(self._queries[query], values).fetchall()
        return found[0] if found else None

    def run(self, query: str, /, **values: Any) -> int:
        """Runs a change and tells how many rows it touched."""
        self.connection.execute(self._queries[query], values)
        return self.connection.changes()

    def run_many(self, query: str, rows: Sequence[Row | Mapping[str, Any]]) -> int:
        """Runs a change once per row and tells how many rows it touched in all."""
        before = self.connection.total_changes()
        self.connection.executemany(self._queries[query], rows)
        return self.connection.total_changes() - before

    def append(self, query: str, row: Row) -> None:
        """Keeps a row for the set-wise insert at the end."""
        self._appended[query].append(row)

    def event(
        self,
        org_id: str,
        job_id: str,
        seq: int,
        kind: EventType,
        actor: ActorType,
        ids: tuple[str, str],
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Appends to a job's log; `ids` are its trace id and the id of the request behind the change."""
        text = json_text(payload) if payload else "{}"
        row = (org_id, job_id, seq, new_id(), kind, self.now, actor, text, *ids)
        place = self._feed_place(org_id) if kind in OUTBOUND else None
        if place is None:
            self.append("insert_event", row)
        else:
            self.append("insert_event_behind", (*row, place))

    def past_event(self, event: Event) -> None:
        """Appends what another system told of; its place in the feed is that of its time, but never ahead of ours."""
        row = msgspec.structs.astuple(event)
        if event.occurred_at > self.now:
            self.append("insert_event_behind", (*row, self.now))
        else:
            self.append("insert_event", row)

    def _feed_place(self, org_id: str) -> Instant | None:
        """Where this transaction's events of an org are in its feed, where that is not simply now.

        Time may not have moved since another transaction: who has read that one has to find this one behind it.
        """
        if org_id not in self._feed_places:
            last = self.one("last_feed_mark", org_id=org_id)
            self._feed_places[org_id] = None if last is None or last[0] < self.now else last[0] + 1
        return self._feed_places[org_id]

    def snapshot(self, lease: Lease, kind: ResultKind, seq: int, write: Partial | Completed) -> None:
        """Appends a snapshot of a job."""
        ids = (lease.org_id, write.result_id, lease.job_id)
        record = (*ids, kind, seq, SCHEMA_VERSION, write.payload_ref, self.now, write.summary, None)
        self.append("insert_result", (*record, write.payload, write.views))

    def notify(self, org_id: str, job_id: str, status: Status, facts: Mapping[str, Any]) -> None:
        """Leaves the in-app message for a job's end, where that end has one."""
        template = TEMPLATES.get(status)
        if template is None:
            return
        payload = json_text({"job_id": job_id, "status": status, **facts, "finished_at": self._now_text})
        key = dedupe_key(job_id, "in_app", template)
        ids = (org_id, new_id(), job_id)
        row = (*ids, "in_app", template, "pending", 0, None, key, self.now, None, self.now, payload)
        self.append("insert_notification", (*row, *_UNREAD_AND_STAYING))

    def fenced(self, lease: Lease) -> dict[str, Any]:
        """The values that every write of an attempt is guarded with."""
        return {"org_id": lease.org_id, "job_id": lease.job_id, "attempt": lease.attempt, "now": self.now}

    def waiting(self, org_id: str, analysis: str, change: int) -> None:
        """Counts a job into or out of its lane."""
        self._lanes[org_id, analysis] += change
        self._changed_orgs[org_id] += change
        self._changed_all += change

    def waiting_counts(self, org_id: str) -> tuple[int, int]:
        """How many jobs wait, of one org and in all, those of this transaction included."""
        if self._waiting_all is None:
            self._waiting_all = self._count("waiting_of_all")
        if org_id not in self._waiting_orgs:
            self._waiting_orgs[org_id] = self._count("waiting_of_org", org_id=org_id)
        return self._waiting_orgs[org_id] + self._changed_orgs[org_id], self._waiting_all + self._changed_all

    def waiting_of_analysis(self, analysis: str) -> int:
        """How many jobs of an analysis wait, over all orgs, those of this transaction included."""
        here = sum(change for (_, name), change in self._lanes.items() if name == analysis)
        return self._count("waiting_of_analysis", analysis=analysis) + here

    def ticketed(self, job: Job) -> Job:
        """The job with the ticket behind the last one that waits in its lane and class."""
        return msgspec.structs.replace(job, ticket=self.next_ticket(job.org_id, job.analysis, job.priority_class))

    def next_ticket(self, org_id: str, analysis: str, priority_class: str) -> int:
        """The ticket behind the last one that waits in a lane and class."""
        lane = (org_id, analysis, priority_class)
        if lane not in self._tickets:
            values = dict(zip(("org_id", "analysis", "priority_class"), lane, strict=True))
            self._tickets[lane] = self._count("last_ticket", **values)
        self._tickets[lane] += 1
        return self._tickets[lane]

    def _count(self, query: str, /, **values: Any) -> int:
        row = self.one(query, **values)
        return int(row[0]) if row else 0

    def ran(self, analysis: str, seconds: float) -> None:
        """Remembers how long a completed run took."""
        self._paces[analysis].append(seconds)

    def view(self, org_id: str, job_id: str) -> JobView | None:
        """The job as this transaction sees it."""
        row = self.one("job_view", org_id=org_id, job_id=job_id)
        return None if row is None else JobView(job_from(row[:-1]), row[-1])

    def flush(self) -> None:
        """Writes everything that was kept for the end."""
        appended, self._appended = self._appended, defaultdict(list)
        for query, rows in appended.items():
            self.run_many(query, rows)
        lanes, self._lanes = self._lanes, Counter()
        self._waiting_orgs, self._waiting_all = {}, None
        self._changed_orgs, self._changed_all = Counter(), 0
        for (org_id, analysis), change in lanes.items():
            if change:
                query = "lane_join" if change > 0 else "lane_leave"
                self.run(query, org_id=org_id, analysis=analysis, change=change)
        paces, self._paces = self._paces, defaultdict(list)
        for analysis, seconds in paces.items():
            mean = sum(seconds) / len(seconds)
            weight = 1 - (1 - _NEWEST_RUN_WEIGHT) ** len(seconds)
            self.run("pace_update", analysis=analysis, runs=len(seconds), mean=mean, weight=weight)
