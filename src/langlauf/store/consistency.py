"""Checks one snapshot of a store against every invariant, row by row: the same for every store.

A driver brings the snapshot: the rows of its queries by name, and what only it can say about itself.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.fields import WORDS
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.job import JobRecord, payload_hash
from langlauf.domain.redact import redacted
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.blobs.names import folder_of
from langlauf.store.joblog import LogJudge
from langlauf.store.rows import job_from
from langlauf.store.verify import RULES, Violation, Watch

#: Two sweeps of the default length.
_PATIENCE = 10 * SECOND
_WATCH_EVERY = 1_000
Row = tuple[Any, ...]


class Snapshot(Protocol):
    """A store as it was at one moment."""

    def knows(self, query: str) -> bool:
        """Whether there is a query of this name."""

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        """The rows of a query by its name. Values that it does not ask for are left out."""

    def rows_now(self, query: str, /, **values: Any) -> list[Row]:
        """The same as the store is now, some time after the snapshot."""

    def tables_of_orgs(self) -> list[str]:
        """Every table with rows of orgs, by what the database itself says."""

    def rows_of_org(self, table: str, org_id: str) -> Iterable[dict[str, Any]]:
        """The rows of an org in one of them, by column."""

    def damages(self) -> Iterable[str]:
        """What the database itself says is damaged."""

    def changed_objects(self) -> Iterable[str]:
        """What of the schema is not as the migrations made it; it may have more."""


def check(
    snapshot: Snapshot, now: Instant, *, watch: Watch = lambda *_: None, payloads: BlockingPayloads | None = None
) -> Iterator[Violation]:
    """What breaks a rule, warnings included, as it is found. Without `payloads` blobs are only counted."""
    run = _Check(snapshot, now, watch)
    yield from run.rules()
    yield from run.hashes()
    yield from run.logs()
    yield from run.deliveries()
    yield from run.blobs(payloads)


class _Check:
    """One check of one snapshot."""

    def __init__(self, snapshot: Snapshot, now: Instant, watch: Watch) -> None:
        self._snapshot = snapshot
        self._now = now
        self._watch = watch

    def rules(self) -> Iterator[Violation]:
        self._watch("integrity", 0, 1)
        yield from (Violation("integrity", None, None, words) for words in self._snapshot.damages())
        self._watch("schema_intact", 0, 1)
        yield from (Violation("schema_intact", None, None, words) for words in self._snapshot.changed_objects())
        for rule in RULES:
            for query in (rule, f"own_{rule}"):
                if self._snapshot.knows(query):
                    self._watch(rule, 0, 1)
                    yield from (Violation(rule, *row) for row in self._rows(query))

    def hashes(self) -> Iterator[Violation]:
        self._watch("payload_hash", 0, 1)
        for org_id, job_id, analysis, kept, payload in self._rows("hashed_inputs"):
            if payload_hash(analysis, payload) != kept:
                yield Violation("payload_hash", org_id, job_id, str(kept))

    def logs(self) -> Iterator[Violation]:
        """Walks over jobs and events side by side: both are in the order of `place_of`."""
        total = self._count("how_many_jobs")
        events = iter(self._rows("all_events"))
        event = next(events, None)
        for done, row in enumerate(self._rows("all_jobs")):
            if done % _WATCH_EVERY == 0:
                self._watch("logs", done, total)
            job = job_from(row)
            judge = LogJudge(job)
            here = place_of(job.org_id, job.job_id)
            while event is not None and (there := place_of(event[0], event[1])) <= here:
                if there == here:
                    judge.add(*event[2:])
                event = next(events, None)
            yield from _judged(job, judge)
        self._watch("logs", total, total)

    def deliveries(self) -> Iterator[Violation]:
        """Looks at what receivers said, and at what is said of them."""
        for org_id, job_id, where, text in self._rows("delivery_texts"):
            if redacted(text) != text:
                yield Violation("no_secrets", org_id, job_id, where)

    def blobs(self, payloads: BlockingPayloads | None) -> Iterator[Violation]:
        """Reads every blob that a row of this snapshot names."""
        total = self._count("how_many_blobs")
        if payloads is None:
            if total:
                evidence = f"{total} payloads are kept as blobs, and LANGLAUF_BLOBS is not set"
                yield Violation("blobs_unchecked", None, None, evidence)
            return
        folder = folder_of(self._rows)
        for done, (org_id, job_id, result_id, ref) in enumerate(self._rows("blobs")):
            self._watch("blobs_kept", done, total)
            try:
                payloads.read(folder, org_id, job_id, ref)
            except PayloadUnavailable as error:
                # Retention may have taken it since this snapshot was made.
                if self._snapshot.rows_now("still_kept", org_id=org_id, result_id=result_id):
                    yield Violation("blobs_kept", org_id, job_id, f"result {result_id}: {error}")

    def _rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        return self._snapshot.rows(query, now=self._now, patience=_PATIENCE, **values)

    def _count(self, query: str) -> int:
        return int(next(iter(self._rows(query)))[0])


def place_of(org_id: str, job_id: str) -> tuple[str, str]:
    """Where a job stands in the order in which every store gives jobs and their rows."""
    return job_id, org_id


def _judged(job: JobRecord, judge: LogJudge) -> Iterator[Violation]:
    found = {} if job.events_expired_at is not None else judge.finish()
    for field in WORDS:
        text = getattr(job, field)
        if text and redacted(text) != text:
            found["no_secrets"] = field
    for rule, evidence in found.items():
        yield Violation(rule, job.org_id, job.job_id, evidence)
