"""Submissions: the idempotency key first, then duplicates, then queue limits, then all inserts at once."""

from collections.abc import Sequence

from msgspec.structs import replace

from langlauf.clock import new_id
from langlauf.domain.event import EventType
from langlauf.domain.instant import after
from langlauf.domain.job import (
    INLINE_REF,
    Accepted,
    Duplicate,
    JobRecord,
    KeyReused,
    NewJob,
    QueueFull,
    Replayed,
    ReuseRule,
    SubmitOutcome,
)
from langlauf.domain.state import Status
from langlauf.store.sqlite.transaction import Row, Transaction

#: Characters of an input in the job's row, which is rewritten at every change; a larger one has a row of its own.
LARGEST_IN_ROW = 1_000


class SubmitBatch:
    """The submissions of one transaction, in the order of arrival."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._rows: list[Row] = []
        self._large: list[Row] = []
        #: jobs accepted here and not written yet, by input and by idempotency key
        self._by_input: dict[tuple[str, str, str], JobRecord] = {}
        self._by_key: dict[tuple[str, str], JobRecord] = {}

    def answer(self, new: NewJob, duplicate_of: str | None) -> SubmitOutcome:
        """Accept a job, or return why not; nothing is written then."""
        if new.idempotency_key is not None and (known := self._known(new.job, new.idempotency_key)):
            return known
        if new.reuse is not None and (origin := self._origin(new, new.reuse)):
            return Accepted(self._reuse(new, origin))
        if new.refuse_duplicate and (twin := self._twin(new.job, duplicate_of)):
            return Duplicate(twin)
        org = self._tx.org(new.job.org_id, make=True)
        if full := self._queue_full(new, org):
            return full
        return Accepted(self._accept(new, org))

    def _origin(self, new: NewJob, rule: ReuseRule) -> Row | None:
        """Return the job whose result the new one may have: its id, key and code."""
        return self._tx.one(
            "find_reusable",
            org=self._tx.org(new.job.org_id),
            analysis=self._tx.analysis(new.job.analysis),
            hash=bytes.fromhex(new.job.request_payload_hash),
            version=rule.version,
            since=after(self._tx.now, -rule.seconds),
        )

    def _reuse(self, new: NewJob, origin: Row) -> JobRecord:
        """Add a job that is completed with the result of another one: every transition and event, and no turn."""
        tx, (origin_id, origin_job, code) = self._tx, origin
        org = tx.org(new.job.org_id)
        job, number = self._add(new, org, ticket=0)
        self.write()
        key, result_id = (number, org, job.job_id), new_id()
        tx.event(key, 1, EventType.QUEUED, "user", {"analysis": job.analysis})
        tx.run("start_reused", job=number, now=tx.now)
        tx.event(key, 2, EventType.RUNNING, "system", {"attempt": 1, "reused_from": origin_id})
        values = {"job": number, "now": tx.now, "result_id": result_id}
        tx.run("copy_final", **values, origin=origin_job)
        tx.run("complete_reused", **values, origin_id=origin_id, code=code)
        tx.run("copy_trail", job=number, origin=origin_job)
        tx.run("keep_attempt", job=number, ran=origin_job, now=tx.now, outcome="completed", why=None)
        facts = {"result_id": result_id, "result_seq": 1, "progress_percent": 100}
        tx.event(key, 3, EventType.COMPLETED, "system", facts)
        return replace(
            job, status=Status.COMPLETED, attempt=1, event_seq=3, progress_percent=100, estimated_seconds=0.0,
            started_at=tx.now, attempt_started_at=tx.now, finished_at=tx.now, result_id=result_id,
            reused_from=origin_id, code=code,
        )  # fmt: skip

    def write(self) -> None:
        """Write the rows of accepted jobs."""
        if self._rows:
            self._tx.run_many("insert_job", self._rows)
            self._rows = []
        if self._large:
            self._tx.run_many("insert_large_input", self._large)
            self._large = []

    def _known(self, job: JobRecord, key: str) -> Replayed | KeyReused | None:
        if found := self._by_key.get((job.org_id, key)):
            return Replayed(found) if found.request_payload_hash == job.request_payload_hash else KeyReused()
        used = self._tx.one("find_idempotency_key", org=self._tx.org(job.org_id), key=key)
        if used is None:
            return None
        job_id, payload_hash = used
        return Replayed(self._job(job.org_id, job_id)) if payload_hash == job.request_payload_hash else KeyReused()

    def _twin(self, job: JobRecord, duplicate_of: str | None) -> JobRecord | None:
        if duplicate_of is not None:
            return self._job(job.org_id, duplicate_of)
        return self._by_input.get((job.org_id, job.analysis, job.request_payload_hash))

    def _job(self, org_id: str, job_id: str) -> JobRecord:
        view = self._tx.view(org_id, job_id)
        if view is None:
            raise LookupError(f"the job {job_id} was there a moment ago")
        return view.job

    def _queue_full(self, new: NewJob, org: int) -> QueueFull | None:
        of_org, of_all = self._tx.waiting_counts(org)
        if of_org >= new.max_waiting_org:
            return QueueFull("org", of_org)
        if of_all >= new.max_waiting_all:
            return QueueFull("all", of_all)
        if new.max_waiting_analysis is not None:
            of_analysis = self._tx.waiting_of_analysis(self._tx.analysis(new.job.analysis, make=True))
            if of_analysis >= new.max_waiting_analysis:
                return QueueFull("analysis", of_analysis)
        return None

    def _accept(self, new: NewJob, org: int) -> JobRecord:
        tx = self._tx
        analysis = tx.analysis(new.job.analysis, make=True)
        expedite = int(new.job.priority_class == "expedite")
        # Times are the store's at the write, so that nothing of a job can seem to have happened before its submission.
        later = new.job.run_at is not None and new.job.run_at > tx.now
        ticket = -new.job.run_at if new.job.run_at and later else tx.next_ticket(org, analysis, expedite)
        job, number = self._add(new, org, ticket)
        tx.accepted[number] = (
            number, org, job.job_id, 1, 2, analysis, float(job.timeout_seconds), 0, 0, job.max_retries,
            job.trace_id, job.request_id, tx.now, job.traceparent, job.tracestate, job.planned_at, new.payload,
        )  # fmt: skip
        self._by_input[job.org_id, job.analysis, job.request_payload_hash] = job
        if later:
            tx.scheduled(org, analysis, +1, job.run_at)
        else:
            tx.waiting(org, analysis, +1)
        facts = {"analysis": job.analysis} | ({"retry_of": job.retry_of} if job.retry_of else {})
        tx.event((number, org, job.job_id), 1, EventType.QUEUED, "user", facts)
        return job

    def _add(self, new: NewJob, org: int, ticket: int) -> tuple[JobRecord, int]:
        """Add the row of a job and what belongs to it."""
        tx = self._tx
        analysis = tx.analysis(new.job.analysis, make=True)
        expedite = int(new.job.priority_class == "expedite")
        job = replace(new.job, queued_at=tx.now, updated_at=tx.now, ticket=ticket)
        number = tx.next_job()
        in_row = len(new.payload) <= LARGEST_IN_ROW
        ref = None if job.request_payload_ref == INLINE_REF else job.request_payload_ref
        self._rows.append((
            number, org, analysis, job.job_id, expedite, ticket, tx.now, bytes.fromhex(job.request_payload_hash), ref,
            job.timeout_seconds, job.max_retries,
            job.trace_id, job.request_id, job.requested_by_user_id, job.api_key_id, job.estimated_seconds, job.retry_of,
            job.traceparent, job.tracestate, new.payload if in_row else None, job.label, job.tool_client,
            job.run_at, job.start_by, job.schedule, job.planned_at,
            job.based_on, 1 if new.reusable else None,
        ))  # fmt: skip
        if not in_row:
            self._large.append((number, new.payload))
        self._add_rare(new, job, org, number)
        return job, number

    def _add_rare(self, new: NewJob, job: JobRecord, org: int, number: int) -> None:
        tx = self._tx
        if new.idempotency_key is not None:
            self._by_key[job.org_id, new.idempotency_key] = job
            tx.run("insert_key", org=org, key=new.idempotency_key, job=number, now=tx.now)
        if new.resume_from is not None:
            tx.run("copy_chunks", org=org, job=number, resume_from=new.resume_from)
        for one in new.subscriptions:
            values = (job.org_id, job.job_id, one.channel, one.target, one.lane, one.language)
            tx.run_many("insert_wish", [values])
            tx.cache.any_subscriptions = True


def submit(tx: Transaction, batch: Sequence[NewJob]) -> list[SubmitOutcome]:
    """Accept jobs, or return why not, in the order of arrival."""
    asked = [
        (place, bytes.fromhex(new.job.request_payload_hash), org, tx.analysis(new.job.analysis))
        for place, new in enumerate(batch)
        if new.refuse_duplicate and (org := tx.org(new.job.org_id))
    ]
    twins: dict[int, str | None] = dict(tx.each("find_duplicates", asked)) if asked else {}
    submissions = SubmitBatch(tx)
    answers = [submissions.answer(new, twins.get(place)) for place, new in enumerate(batch)]
    submissions.write()
    return answers
