"""The invariants of a store, one rule each: what a check may find, in words that a person and a program can read.

The rules about records are the queries of `verify.sql`, those about a job's log are in `event_log.py`: for every store.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple, Protocol

import msgspec

from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.job import FREE_TEXT_FIELDS, JobRecord, payload_hash
from langlauf.domain.provenance import DERIVED, CodeVersion, Source, derived_version
from langlauf.domain.redact import redact
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.blobs.protocol import folder_of
from langlauf.store.sql import job_from, parse_queries
from langlauf.store.tools.event_log import EventLogCheck

#: Called for each step: what is checked, how much of it is done, the total.
Watch = Callable[[str, int, int], None]


class Rule(NamedTuple):
    """One invariant. What breaks a warning is odd but can happen without a fault, such as a clock that was set back."""

    sentence: str
    warning: bool = False


RULES: dict[str, Rule] = {
    # the file
    "integrity": Rule("The file is sound, page by page; of a database, what it says about itself."),
    "schema_intact": Rule("Every table, index, trigger and function of the schema is there as it was made."),
    "orphans": Rule("Every row belongs to a job of its org that exists."),
    "known_values": Rule("A field that holds one of a few words holds one of them, and no count is below nothing."),
    # a job and its log
    "first_event": Rule("A job's log starts with job.queued, number 1."),
    "event_types": Rule("Every event is of a known kind."),
    "event_sequence": Rule("Events are numbered 1, 2, 3 … without a gap, up to the job's event_seq."),
    "event_times": Rule("Events are in the order of their times.", warning=True),
    "legal_transitions": Rule("Every change of state in the log is one that the table of transitions has."),
    "nothing_after_end": Rule("Nothing happens to a job after its end."),
    "one_final_event": Rule("An ended job has exactly one final event, any other job none."),
    "state_matches_events": Rule("A job is in the state that its log leads to."),
    "progress_never_falls": Rule("Progress never falls along the log, and reaches 100 at completion alone."),
    "progress_told": Rule("A job's progress is that of its last event: no change without an event."),
    "snapshots_told": Rule("Every snapshot has its event, with result_id, result_seq and progress_percent."),
    "attempts_told": Rule("A job has as many attempts as its log has starts."),
    "retries_told": Rule("A job has as many retries as its log has."),
    "limits_told": Rule("A job that reached a bound says so in one event, and has no progress or partial past it."),
    "no_secrets": Rule("No event, no error text, no source and no reply holds something that looks like a secret."),
    # a job's row
    "ended_has_time": Rule("A job has a time of its end exactly when it has ended."),
    "times_ordered": Rule("A job is queued, then started, then finished."),
    "attempt_has_start": Rule("A job has a start exactly when it has had an attempt."),
    "progress_bounds": Rule("Progress is from 0 to 100, and 100 exactly when the job is completed."),
    "cancel_fields": Rule(
        "A canceled job says when, by whom and why; any other says so only while it is asked to stop."
    ),
    "error_fields": Rule("A failed job says with which error and when; no other job does."),
    "retry_limit": Rule("A job is not retried more often than it may be."),
    "input_kept": Rule("Every job has its input."),
    "payload_hash": Rule("request_payload_hash is the hash of the job's analysis and input."),
    "code_hash": Rule(
        "The key of a code is made from the rest of it, and a version that is not declared from its hash."
    ),
    "code_known": Rule("The code that a job names is there.", warning=True),
    "source_key": Rule("The key of a declared source is made from the rest of it."),
    "error_codes": Rule("Error codes are in lower snake case."),
    "json_values": Rule("What is kept as JSON is JSON."),
    "results_named": Rule("An event about a snapshot names one of its job."),
    # leases
    "lease_or_next_attempt": Rule("A running or partial job has a lease or a time for its next attempt, never both."),
    "no_lease_at_rest": Rule("A job that waits or has ended has no lease and no next attempt."),
    "lease_overdue": Rule("No lease has been over for longer than two sweeps.", warning=True),
    # snapshots
    "partial_count": Rule("partial_count is the number of partial snapshots ever written."),
    "result_sequence": Rule("Snapshots are numbered 1, 2, 3 … without a gap."),
    "one_final_result": Rule("A completed job has exactly one final snapshot, any other job none."),
    "newest_result": Rule("A job's result_id is its newest snapshot."),
    "blobs_kept": Rule("Every payload that is kept as a blob is there, byte for byte."),
    "blobs_unchecked": Rule("Where LANGLAUF_BLOBS is not set, no payload is kept as a blob.", warning=True),
    "retired_after_end": Rule("Retention took only from ended jobs, and left a note of what it took."),
    # messages, lanes, keys
    "in_app_message": Rule("In-app messages about an end are derived from the job: none is stored or read beside it."),
    "message_keys": Rule("A message's dedupe_key is made of its job, channel and template."),
    "wishes_told": Rule("A job's end left exactly the messages of its subscriptions, at that very instant."),
    "message_receivers": Rule(
        "A message goes to a subscription of its job or an endpoint of its own org, and to no other."
    ),
    "delivery_states": Rule("What is sent says when, what waits says where to, and only what waits is claimed."),
    "delivery_log": Rule("Every delivery that arrived is in the log, and no attempt that was not made."),
    "deliveries_overdue": Rule(
        "No lane of deliveries that is not paused lies still for longer than two sweeps.", warning=True
    ),
    "lane_counts": Rule(
        "A lane counts as many waiting, scheduled and running jobs as there are, and an analysis as many as its lanes."
    ),
    "lane_tickets": Rule(
        "Each waiting job has a ticket of its own, among those that its lane has given and not called."
    ),
    "lane_due": Rule("A lane knows of every job that waits for its next attempt, or for its time."),
    "start_times": Rule("No job started before its time, or more than a second after it was too late."),
    "paused_starts": Rule("No attempt has begun since its analysis was paused."),
    "planned_once": Rule("A planned run of a schedule is one job, not before its time."),
    "schedule_times": Rule("A schedule has one kind of times, and a next run behind the last one unless it is paused."),
    "schedules_overdue": Rule("No schedule has been due for longer than two sweeps.", warning=True),
    "idempotency_keys": Rule("An idempotency key points to a job with the same payload hash."),
    "kept_marks": Rule("A job whose events or results retention looks for no more has none."),
    "feed_places": Rule(
        "Every event that goes out has a place of its own in its org's feed, and no other event has one."
    ),
}


class Violation(msgspec.Struct, frozen=True):
    """A rule that does not hold, where, and what shows it. Org and job are None where it is about the whole file."""

    rule: str
    org_id: str | None
    job_id: str | None
    evidence: str

    @property
    def warning(self) -> bool:
        """Whether this can happen without a fault."""
        return RULES[self.rule].warning


_SPELLED = re.compile(r"\{(\w+):([\w.]+)\}")


def rule_queries(spelling: Mapping[str, str]) -> dict[str, str]:
    """Return the queries of `verify.sql` in the dialect of one database."""
    text = resources.files("langlauf.store.tools").joinpath("verify.sql").read_text("utf-8")
    return parse_queries(_SPELLED.sub(lambda found: spelling[found[1]].format(found[2]), text))


#: Two sweeps of the default length.
_PATIENCE = 10 * SECOND
_WATCH_EVERY = 1_000
Row = tuple[Any, ...]


class StoreSnapshot(Protocol):
    """A store as it was at one moment."""

    def knows(self, query: str) -> bool:
        """Whether there is a query of this name."""

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        """Return the rows of a query by its name. Values that it does not ask for are left out."""

    def rows_now(self, query: str, /, **values: Any) -> list[Row]:
        """Return the rows as they are now, some time after the snapshot."""

    def tables_of_orgs(self) -> list[str]:
        """Return every table with rows of orgs, by what the database itself says."""

    def rows_of_org(self, table: str, org_id: str) -> Iterable[dict[str, Any]]:
        """Return the rows of an org in one of them, by column."""

    def damages(self) -> Iterable[str]:
        """Return what the database itself says is damaged."""

    def changed_objects(self) -> Iterable[str]:
        """Return schema objects that differ from the migrations; additional ones are allowed."""


def check(
    snapshot: StoreSnapshot, now: Instant, *, watch: Watch = lambda *_: None, payloads: BlockingPayloads | None = None
) -> Iterator[Violation]:
    """Yield violations, warnings included, as they are found. Without `payloads` blobs are only counted."""
    run = _Check(snapshot, now, watch)
    yield from run.rules()
    yield from run.hashes()
    yield from run.sources()
    yield from run.logs()
    yield from run.deliveries()
    yield from run.blobs(payloads)


class _Check:
    """One check of one snapshot."""

    def __init__(self, snapshot: StoreSnapshot, now: Instant, watch: Watch) -> None:
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
        for key, *values in self._rows("all_codes"):
            code = CodeVersion(**dict(zip(CodeVersion.__struct_fields__, values, strict=True)))
            derived = code.version.startswith(DERIVED)
            if code.key != key or (derived and code.version != derived_version(code.code_hash, code.package)):
                yield Violation("code_hash", None, None, f"code {key} of {code.analysis}, version {code.version}")

    def sources(self) -> Iterator[Violation]:
        """Check what functions declared: the hash in the key, and that no secret is stored."""
        self._watch("source_key", 0, 1)
        for org_id, job_id, key, payload in self._rows("all_sources"):
            try:
                source = msgspec.json.decode(payload, type=Source)
            except msgspec.MsgspecError:
                yield Violation("source_key", org_id, job_id, key)
                continue
            if source.key != key:
                yield Violation("source_key", org_id, job_id, key)
            if any(text and redact(text) != text for text in msgspec.structs.astuple(source)):
                yield Violation("no_secrets", org_id, job_id, key)

    def logs(self) -> Iterator[Violation]:
        """Walk over jobs and events side by side: both are in the order of `job_position`."""
        total = self._count("how_many_jobs")
        events = iter(self._rows("all_events"))
        event = next(events, None)
        for done, row in enumerate(self._rows("all_jobs")):
            if done % _WATCH_EVERY == 0:
                self._watch("logs", done, total)
            job = job_from(row)
            judge = EventLogCheck(job)
            here = job_position(job.org_id, job.job_id)
            while event is not None and (there := job_position(event[0], event[1])) <= here:
                if there == here:
                    judge.add(*event[2:])
                event = next(events, None)
            yield from _judged(job, judge)
        self._watch("logs", total, total)

    def deliveries(self) -> Iterator[Violation]:
        """Check the replies of receivers and the errors about them."""
        for org_id, job_id, where, text in self._rows("delivery_texts"):
            if redact(text) != text:
                yield Violation("no_secrets", org_id, job_id, where)

    def blobs(self, payloads: BlockingPayloads | None) -> Iterator[Violation]:
        """Read every blob that a row of this snapshot names."""
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


def job_position(org_id: str, job_id: str) -> tuple[str, str]:
    """Return the sort key of a job in the order in which every store returns jobs and their rows."""
    return job_id, org_id


def _judged(job: JobRecord, judge: EventLogCheck) -> Iterator[Violation]:
    found = {} if job.events_expired_at is not None else judge.finish()
    for field in FREE_TEXT_FIELDS:
        text = getattr(job, field)
        if text and redact(text) != text:
            found["no_secrets"] = field
    for rule, evidence in found.items():
        yield Violation(rule, job.org_id, job.job_id, evidence)
