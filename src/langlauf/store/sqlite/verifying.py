"""Checks a file against every invariant: read-only, on one snapshot, beside a running server, row by row."""

from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from langlauf.clock import machine_time
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.job import Job, payload_hash
from langlauf.domain.redact import redacted
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.joblog import LogJudge
from langlauf.store.migrate import migrations_in
from langlauf.store.queries import load
from langlauf.store.rows import job_from
from langlauf.store.sqlite.blob_check import check_blobs
from langlauf.store.sqlite.connection import MEMORY, applied_migrations, migrate, open_connection
from langlauf.store.sqlite.steady import SteadyClock
from langlauf.store.sqlite.transaction import Row
from langlauf.store.verify import RULES, Violation, Watch

#: Two sweeps of the default length.
_PATIENCE = 10 * SECOND
_WATCH_EVERY = 1_000


def verify_file(path: str) -> list[Violation]:
    """Everything in the file that breaks a rule; warnings aside. Raises `StoreError` where it cannot be checked."""
    return [found for found in check_file(path) if not found.warning]


def check_file(
    path: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """What breaks a rule, warnings included, as it is found. Without `payloads` blobs are only counted."""
    connection = open_connection(path, read_only=True)
    try:
        _refuse_other_schema(connection, path)
        connection.execute("BEGIN")
        now = SteadyClock(machine_time()).look(connection) if now is None else now
        yield from _Check(connection, now, watch).run()
        yield from check_blobs(path, connection, watch, payloads)
    except apsw.CorruptError as error:
        yield Violation("integrity", None, None, str(error))
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {path} cannot be read: {error}") from error
    finally:
        connection.close()


def _refuse_other_schema(connection: apsw.Connection, path: str) -> None:
    found, known = applied_migrations(connection), len(migrations_in("langlauf.store.sqlite"))
    if found != known:
        raise StoreUnavailable(f"{path} has schema {found}, this program checks {known}: run `langlauf migrate` first")


class _Check:
    """One check of one snapshot."""

    def __init__(self, connection: apsw.Connection, now: Instant, watch: Watch) -> None:
        self._connection = connection
        self._now = now
        self._watch = watch
        self._queries = load("langlauf.store.sqlite", "verify.sql")

    def run(self) -> Iterator[Violation]:
        yield from self._integrity()
        yield from self._schema()
        for rule in RULES:
            if rule in self._queries:
                self._watch(rule, 0, 1)
                yield from (Violation(rule, *row) for row in self._rows(rule))
        yield from self._hashes()
        yield from self._logs()

    def _hashes(self) -> Iterator[Violation]:
        self._watch("payload_hash", 0, 1)
        for org_id, job_id, analysis, kept, payload in self._rows("hashed_inputs"):
            if payload_hash(analysis, payload) != kept:
                yield Violation("payload_hash", org_id, job_id, str(kept))

    def _rows(self, query: str) -> Iterable[Row]:
        return self._connection.execute(self._queries[query], {"now": self._now, "patience": _PATIENCE})

    def _integrity(self) -> Iterator[Violation]:
        self._watch("integrity", 0, 1)
        for (line,) in self._connection.execute("PRAGMA quick_check"):
            if line != "ok":
                yield Violation("integrity", None, None, str(line))

    def _schema(self) -> Iterator[Violation]:
        """What the migrations make in a fresh store, the file must have; it may have more."""
        self._watch("schema_intact", 0, 1)
        fresh = open_connection(MEMORY)
        try:
            migrate(fresh)
            wanted = fresh.execute(self._queries["schema_objects"]).fetchall()
        finally:
            fresh.close()
        there: dict[Any, Any] = dict(self._rows("schema_objects"))
        for name, sql in wanted:
            if there.get(name) != sql:
                yield Violation("schema_intact", None, None, f"{name} is {'changed' if name in there else 'missing'}")

    def _logs(self) -> Iterator[Violation]:
        """Walks over jobs and events side by side: both are in the order of their keys."""
        total = next(iter(self._rows("how_many_jobs")))[0]
        events = iter(self._rows("all_events"))
        event = next(events, None)
        for done, row in enumerate(self._rows("all_jobs")):
            if done % _WATCH_EVERY == 0:
                self._watch("logs", done, total)
            job = job_from(row)
            judge = LogJudge(job)
            while event is not None and (event[0], event[1]) <= (job.org_id, job.job_id):
                if (event[0], event[1]) == (job.org_id, job.job_id):
                    judge.add(*event[2:])
                event = next(events, None)
            yield from _judged(job, judge)
        self._watch("logs", total, total)


def _judged(job: Job, judge: LogJudge) -> Iterator[Violation]:
    found = {} if job.events_expired_at is not None else judge.finish()
    for field in ("error_message", "retry_reason"):
        text = getattr(job, field)
        if text and redacted(text) != text:
            found["no_secrets"] = field
    for rule, evidence in found.items():
        yield Violation(rule, job.org_id, job.job_id, evidence)
