"""One write transaction: its queries, its instant, and the rows that are written together at its end."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import apsw

from langlauf.clock import new_id
from langlauf.domain.attempt import Lease, Partial
from langlauf.domain.event import FINAL_EVENTS, OUTBOUND, ActorType, EventType
from langlauf.domain.instant import Instant
from langlauf.domain.job import INLINE_REF
from langlauf.domain.outcome import Completed
from langlauf.domain.read_models import JobView
from langlauf.domain.result import SCHEMA_VERSION, ResultKind
from langlauf.store.shared_sql import shared_statements
from langlauf.store.sql import json_text, view_from
from langlauf.store.sqlite.writer_cache import WriterCache

Row = tuple[Any, ...]
SnapshotWrite = Partial | Completed
#: The key of a job and of its org, and its id.
Key = tuple[int, int, str]
#: How much the newest run counts in the mean of recent runs.
_NEWEST_RUN_WEIGHT = 0.2
#: As plain texts: an enum computes the hash of a member in Python each time.
_OUTBOUND = frozenset(kind.value for kind in OUTBOUND)
#: The values of `fill_outbox`, in the order of `outgoing_event`.
_OUTGOING = ("org_id", "job_id", "event_seq", "event_id", "event_type", "occurred_at", "trace_id", "result_id")
#: Rows that one execution of an INSERT writes, where there are so many.
_ROWS_AT_ONCE = 16
#: The length of a UUID: event ids are derived from such a job id, and stored for any other.
_UUID = 36


@cache
def _insert_of_several(query: str) -> str:
    """Return an INSERT of one row as one of several rows."""
    insert, row = query.rsplit("VALUES", 1)
    return f"{insert}VALUES {', '.join([row.strip()] * _ROWS_AT_ONCE)}"


class Transaction:
    """Runs named queries at one instant. Rows that nothing reads back before the commit are written set-wise."""

    def __init__(
        self, connection: apsw.Connection, queries: Mapping[str, str], now: Instant, cache: WriterCache | None = None
    ) -> None:
        self.connection = connection
        self.now = now
        self.cache = cache or WriterCache()
        #: jobs accepted in this transaction, by key, as rows of `claimable_jobs`
        self.accepted: dict[int, Row] = {}
        self._queries = queries
        self._events: list[Row] = []
        self._results: list[Row] = []
        self._going_out: list[tuple[int, int, EventType]] = []
        self._touched: set[int] = set()
        self._waiting: Counter[tuple[int, int]] = Counter()
        self._scheduled: Counter[tuple[int, int]] = Counter()
        self._runs: dict[tuple[int, int], Instant] = {}
        self._running: Counter[int] = Counter()
        self._due: dict[tuple[int, int], Instant] = {}
        self._paces: defaultdict[int, list[float]] = defaultdict(list)

    # -- queries -------------------------------------------------------------------------------------------------------

    def query(self, name: str) -> str:
        """Return the text of a query."""
        return self._queries[name]

    def rows(self, query: str, /, **values: Any) -> list[Row]:
        """Return all rows of a query."""
        return self.connection.execute(self._queries[query], values).fetchall()

    def one(self, query: str, /, **values: Any) -> Row | None:
        """Return the first row of a query, if there is one."""
        found = self.connection.execute(self._queries[query], values).fetchall()
        return found[0] if found else None

    def run(self, query: str, /, **values: Any) -> int:
        """Run a change and return how many rows it touched."""
        self.connection.execute(self._queries[query], values)
        return self.connection.changes()

    def each(self, query: str, rows: Iterable[Row | Mapping[str, Any]]) -> list[Row]:
        """Run a query once per row of values and return all that it gave."""
        return self.connection.executemany(self._queries[query], rows).fetchall()

    def run_many(self, query: str, rows: Sequence[Row | Mapping[str, Any]]) -> int:
        """Run a change once per row of values and return how many rows it touched in all."""
        before = self.connection.total_changes()
        self.connection.executemany(self._queries[query], rows)
        return self.connection.total_changes() - before

    def change(self, name: str, /, **values: Any) -> Any:
        """Run a change that both databases share, and return its rows, its value, or whether it changed a row."""
        shared = shared_statements("sqlite")[name]
        values = {name: json_text(value) if isinstance(value, list) else value for name, value in values.items()}
        *before, last = shared.names
        for step in before:
            self.run(step, **values, now=self.now)
        if shared.returns in ("boolean", "void"):
            return self.run(last, **values, now=self.now) > 0
        rows = self.rows(last, **values, now=self.now)
        return rows if shared.gives_rows else rows[0][0]

    def _insert(self, query: str, rows: Sequence[Row]) -> None:
        """Insert rows, several by one execution.

        The driver looks a statement up for each execution, and its cache keeps only those of the last few hundred.
        """
        several = len(rows) - len(rows) % _ROWS_AT_ONCE
        for start in range(0, several, _ROWS_AT_ONCE):
            values = tuple(chain.from_iterable(rows[start : start + _ROWS_AT_ONCE]))
            self.connection.execute(_insert_of_several(self._queries[query]), values)
        if several < len(rows):
            self.connection.executemany(self._queries[query], rows[several:])

    def _number(self, query: str, /, **values: Any) -> int:
        row = self.one(query, **values)
        return int(row[0]) if row else 0

    # -- names ---------------------------------------------------------------------------------------------------------

    def org(self, org_id: str, *, make: bool = False) -> int:
        """Return the number of an org; 0 where it has none."""
        known = self.cache.orgs.get(org_id)
        return known or self.cache.org(self.connection, self._queries, org_id, make=make)

    def org_id(self, org: int) -> str:
        """Return the name of an org."""
        if org not in self.cache.org_ids:
            [[self.cache.org_ids[org]]] = self.rows("name_of_org", org=org)
        return self.cache.org_ids[org]

    def analysis(self, name: str, *, make: bool = False) -> int:
        """Return the number of an analysis; -1 where it has none."""
        known = self.cache.analyses.get(name)
        return self.cache.analysis(self.connection, self._queries, name, make=make) if known is None else known

    def analysis_name(self, analysis: int) -> str:
        """Return the name of an analysis."""
        if analysis not in self.cache.analysis_names:
            [[self.cache.analysis_names[analysis]]] = self.rows("name_of_analysis", analysis=analysis)
        return self.cache.analysis_names[analysis]

    def next_job(self) -> int:
        """Return the key of the next job."""
        if self.cache.last_job is None:
            self.cache.last_job = self._number("last_job")
        self.cache.last_job += 1
        return self.cache.last_job

    # -- the log, snapshots --------------------------------------------------------------------------------------------

    def event(
        self,
        key: Key,
        seq: int,
        kind: EventType,
        actor: ActorType,
        payload: Mapping[str, Any] | str,
        *,
        request_id: str | None = None,
    ) -> None:
        """Append to a job's log; the request behind the change is the job's unless another one is named."""
        job, org, job_id = key
        place = None
        if kind._value_ in _OUTBOUND:
            place = self._feed_place(org)
            self._going_out.append((job, seq, kind))
        event_id = None if len(job_id) == _UUID else new_id()
        text = payload if isinstance(payload, str) else json_text(payload)
        self._events.append((job, seq, org, kind._value_, self.now, place, actor, text, event_id, None, request_id))
        self._touched.add(org)

    def _feed_place(self, org: int) -> Instant:
        """Return the next feed position of an org: the time, or behind the last one where the time has not moved."""
        last = self.cache.feed_places.get(org)
        if last is None:
            last = self._number("last_feed_place", org=org)
        place = self.now if self.now > last else last + 1
        self.cache.feed_places[org] = place
        return place

    def snapshot(
        self, key: Key, event_seq: int, kind: ResultKind, seq: int, percent: int, write: SnapshotWrite
    ) -> None:
        """Append a snapshot of a job and its event."""
        payload = json_text({"result_id": write.result_id, "result_seq": seq, "progress_percent": percent})
        self.event(key, event_seq, EventType.COMPLETED if kind == "final" else EventType.PARTIAL, "worker", payload)
        job, org, _ = key
        ref = None if write.payload_ref == INLINE_REF else write.payload_ref
        row = (job, seq, org, write.result_id, kind, SCHEMA_VERSION, ref, self.now, write.summary)
        self._results.append((*row, write.content, write.views))

    def write_snapshots(self) -> None:
        """Write the snapshots that were appended so far."""
        results, self._results = self._results, []
        if results:
            self._insert("insert_result", results)

    # -- queues --------------------------------------------------------------------------------------------------------

    def waiting(self, org: int, analysis: int, change: int) -> None:
        """Count a job into or out of those that wait in line."""
        self._waiting[org, analysis] += change
        self._count_waiting(org, analysis, change)

    def scheduled(self, org: int, analysis: int, change: int, run_at: Instant | None = None) -> None:
        """Count a job into or out of those that wait for their time, which is `run_at`."""
        lane = (org, analysis)
        self._scheduled[lane] += change
        if run_at is not None:
            self._runs[lane] = min(run_at, self._runs.get(lane, run_at))
        self._count_waiting(org, analysis, change)

    def _count_waiting(self, org: int, analysis: int, change: int) -> None:
        """Limits of the queue count both."""
        cache = self.cache
        if cache.waiting is not None:
            cache.waiting += change
        if org in cache.waiting_orgs:
            cache.waiting_orgs[org] += change
        if analysis in cache.waiting_analyses:
            cache.waiting_analyses[analysis] += change

    def running(self, analysis: int, change: int) -> None:
        """Count a job into or out of those that run."""
        self._running[analysis] += change
        if self.cache.running is not None:
            self.cache.running += change

    def due(self, org: int, analysis: int, at: Instant) -> None:
        """Record when a started job may continue."""
        lane = (org, analysis)
        self._due[lane] = min(at, self._due.get(lane, at))

    def waiting_counts(self, org: int) -> tuple[int, int]:
        """Return how many jobs wait, of one org and in all, those of this transaction included."""
        cache = self.cache
        if cache.waiting is None:
            cache.waiting = self._number("waiting_of_all") + self._waiting.total() + self._scheduled.total()
        if org not in cache.waiting_orgs:
            here = sum(change for (other, _), change in self._uncounted() if other == org)
            cache.waiting_orgs[org] = self._number("waiting_of_org", org=org) + here
        return cache.waiting_orgs[org], cache.waiting

    def waiting_of_analysis(self, analysis: int) -> int:
        """Return how many jobs of an analysis wait, over all orgs, those of this transaction included."""
        known = self.cache.waiting_analyses
        if analysis not in known:
            here = sum(change for (_, other), change in self._uncounted() if other == analysis)
            known[analysis] = self._number("waiting_of_analysis", analysis=analysis) + here
        return known[analysis]

    def _uncounted(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield the changes that are not written yet, by lane."""
        yield from self._waiting.items()
        yield from self._scheduled.items()

    def running_of_all(self) -> int:
        """Return how many jobs run, those included whose lease has ended and that no sweep has taken yet."""
        if self.cache.running is None:
            self.cache.running = self._number("running_of_all") + self._running.total()
        return self.cache.running

    def paused_lanes(self) -> list[tuple[int, int]]:
        """Return the org and the analysis of every pause that holds now, by number; org 0 stands for all."""
        if self.cache.pauses is None:
            self.cache.pauses = tuple((str(org_id), str(name), until) for org_id, name, until in self.rows("pauses"))
        return [
            (self.org(org_id) if org_id else 0, self.analysis(name))
            for org_id, name, until in self.cache.pauses
            if (until is None or until > self.now) and (not org_id or self.org(org_id))
        ]

    def next_ticket(self, org: int, analysis: int, expedite: int) -> int:
        """Return the ticket behind the last one of a lane and class."""
        lane, tickets = (org, analysis, expedite), self.cache.tickets
        if lane not in tickets:
            tickets[lane] = self._number("last_ticket", org=org, analysis=analysis, expedite=expedite)
        tickets[lane] += 1
        return tickets[lane]

    def record_run_time(self, analysis: int, seconds: float) -> None:
        """Record how long a completed run took."""
        self._paces[analysis].append(seconds)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def fenced(self, lease: Lease, *, alive: bool = True) -> dict[str, Any]:
        """Return the values of the fence of an attempt's writes; without `alive` an expired lease passes too."""
        return {
            "org": self.org(lease.org_id),
            "job_id": lease.job_id,
            "attempt": lease.attempt,
            "now": self.now,
            "alive": self.now if alive else -1,
        }

    def view(self, org_id: str, job_id: str) -> JobView | None:
        """Return the job as this transaction sees it."""
        row = self.one("job_view", org_id=org_id, job_id=job_id)
        return None if row is None else view_from(row)

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all collected rows."""
        self._write_log()
        waiting, self._waiting = self._waiting, Counter()
        for statement, sign in (("lane_join", 1), ("lane_leave", -1)):
            changes = [
                {"org": org, "analysis": analysis, "change": change}
                for (org, analysis), change in waiting.items()
                if change * sign > 0
            ]
            if changes:
                self.connection.executemany(self._queries[statement], changes)
        if self._scheduled:
            self._write_scheduled()
        due, self._due = self._due, {}
        for (org, analysis), at in due.items():
            self.run("lane_due_by", org=org, analysis=analysis, due_at=at)
        self._write_counts(waiting)

    def _write_scheduled(self) -> None:
        runs, self._runs = self._runs, {}
        for (org, analysis), change in self._scheduled.items():
            lane = {"org": org, "analysis": analysis, "change": change}
            if (org, analysis) in runs:
                self.run("lane_schedule", **lane, run_at=runs[org, analysis])
            elif change:
                self.run("lane_unschedule", **lane)

    def _write_log(self) -> None:
        self.write_snapshots()
        events, self._events = self._events, []
        if events:
            self._insert("insert_event", events)
        touched, self._touched = self._touched, set()
        if touched:
            self.connection.executemany(self._queries["touch_org"], [(org,) for org in touched])
        going_out, self._going_out = self._going_out, []
        if going_out:
            self._fill_outbox(going_out)

    def _fill_outbox(self, events: Sequence[tuple[int, int, EventType]]) -> None:
        """Add the messages about events, by job, number and kind. Mostly there are no receivers, and no query runs."""
        cache = self.cache
        if cache.orgs_with_endpoints is None:
            cache.orgs_with_endpoints = frozenset(str(org_id) for (org_id,) in self.rows("any_endpoints"))
        if cache.any_subscriptions is None:
            cache.any_subscriptions = bool(self._number("subscriptions_exist"))
        ends = [job for job, _, kind in events if kind in FINAL_EVENTS] if cache.any_subscriptions else []
        subscribed = {job for (job,) in self.rows("any_subscriptions", jobs=json_text(ends))} if ends else set()
        if not cache.orgs_with_endpoints and not subscribed:
            return
        for job, seq, kind in events:
            row = self.one("outgoing_event", job=job, event_seq=seq)
            if row and (row[0] in cache.orgs_with_endpoints or (job in subscribed and kind in FINAL_EVENTS)):
                self.connection.execute(self._queries["fill_outbox"], dict(zip(_OUTGOING, row, strict=True)))

    def _write_counts(self, waiting: Counter[tuple[int, int]]) -> None:
        changes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for (_, analysis), change in waiting.items():
            changes[analysis][0] += change
        scheduled, self._scheduled = self._scheduled, Counter()
        for (_, analysis), change in scheduled.items():
            changes[analysis][2] += change
        running, self._running = self._running, Counter()
        for analysis, change in running.items():
            changes[analysis][1] += change
        rows = [(*counts, analysis) for analysis, counts in changes.items() if any(counts)]
        if rows:
            self.connection.executemany(self._queries["count_jobs"], rows)
        paces, self._paces = self._paces, defaultdict(list)
        for analysis, seconds in paces.items():
            mean = sum(seconds) / len(seconds)
            weight = 1 - (1 - _NEWEST_RUN_WEIGHT) ** len(seconds)
            self.run("pace_update", analysis=analysis, runs=len(seconds), mean=mean, weight=weight)
