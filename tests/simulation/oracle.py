"""What the store must answer to every operation, and which jobs there must be afterwards."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from langlauf.domain.attempt import (
    Checkpoint,
    Claim,
    ClaimRequest,
    Lease,
    LeaseRenewal,
    Partial,
    Progress,
    WriteResult,
    write_result,
)
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import Accepted, Duplicate, KeyReused, NewJob, QueueFull, Replayed, SubmitOutcome
from langlauf.domain.read_models import CancelRequest, JobView, SweptJob
from langlauf.domain.state import Status
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.claim import RenewRequest, SettleTimes
from langlauf.store.sqlite.end import SweepOne, TidyLanes
from tests.simulation.claims import judge_claims
from tests.simulation.disagreement import agree
from tests.simulation.environment import ListSweepable, SweepAll
from tests.simulation.model import ATTEMPT_KEYS, ModelJob

#: What is compared after every step: columns of a job, then of its lease.
JOB_FIELDS = (
    *("org_id", "job_id", "status", "attempt", "event_seq", "progress_percent", "step", "partial_count"),
    *(
        "error_count",
        "retry_count",
        "lost_count",
        "crash_count",
        "result_id",
        "started_at",
        "attempt_started_at",
        "finished_at",
    ),
    *("run_at", "start_by", "next_attempt_at", "cancel_requested_at", "canceled_by", "cancel_reason", "error_code"),
    *("paced_percent", "paced_at", "progress_at", "partial_bytes", "limit_reached"),
)
LEASE_FIELDS = ("attempt", "worker_id", "expires_at", "deadline_at")
_job_row = attrgetter(*JOB_FIELDS)
_lease_row = attrgetter(*LEASE_FIELDS)
_NO_LEASE = (None,) * len(LEASE_FIELDS)


class Oracle:
    """Follows what the store does, one judged operation after another. `jitter` is what chance draws in the store."""

    def __init__(self, jitter: float) -> None:
        self.jobs: dict[tuple[str, str], ModelJob] = {}
        self._keys: dict[tuple[str, str], ModelJob] = {}
        self._jitter = jitter

    def judge(self, operation: Any, answer: Any, now: Instant) -> None:
        """Raises `Disagreement` where the answer is not the right one; takes note of what changed."""
        _JUDGES[type(operation)](self, operation, answer, now)

    def rows(self) -> list[tuple[Any, ...]]:
        """The jobs with their leases as they must lie in the store, in the order in which they came."""
        return [
            _job_row(job) + (_NO_LEASE if job.lease is None else _lease_row(job.lease)) for job in self.jobs.values()
        ]

    def totals(self) -> tuple[int, ...]:
        """How many events, snapshots, chunks, messages and waiting jobs there must be; the last are kept twice."""
        events = snapshots = chunks = messages = waiting = 0
        for job in self.jobs.values():
            events += len(job.log)
            snapshots += len(job.snapshots)
            chunks += len(job.chunks)
            messages += job.status is Status.COMPLETED or job.status is Status.FAILED
            waiting += job.status is Status.QUEUED
        return events, snapshots, chunks, messages, waiting, waiting

    # -- one judge per operation ---------------------------------------------------------------------------------------

    def _submit(self, new: NewJob, answer: SubmitOutcome, _: Instant) -> None:
        verdicts = self._accept(new)
        seen = _seen(answer)
        agree("answer to the submission", seen, seen if seen in verdicts else verdicts[0])

    def _accept(self, new: NewJob) -> list[tuple[type, str | None]]:
        """What may be answered; more than one where an org has several duplicates."""
        job = new.job
        if new.idempotency_key is not None and (first := self._keys.get((job.org_id, new.idempotency_key))):
            same = first.request_payload_hash == job.request_payload_hash
            return [(Replayed, first.job_id) if same else (KeyReused, None)]
        if new.refuse_duplicate and (same_wish := [one for one in self.jobs.values() if _same_wish(one, new)]):
            return [(Duplicate, one.job_id) for one in same_wish]
        waiting = [one for one in self.jobs.values() if one.status is Status.QUEUED]
        if sum(one.org_id == job.org_id for one in waiting) >= new.max_waiting_org:
            return [(QueueFull, "org")]
        if len(waiting) >= new.max_waiting_all:
            return [(QueueFull, "all")]
        of_analysis = sum(one.analysis == job.analysis for one in waiting)
        if new.max_waiting_analysis is not None and of_analysis >= new.max_waiting_analysis:
            return [(QueueFull, "analysis")]
        self._add(new)
        return [(Accepted, job.job_id)]

    def _add(self, new: NewJob) -> None:
        job = new.job
        same = {name: getattr(job, name) for name in _SUBMITTED}
        made = self.jobs[job.org_id, job.job_id] = ModelJob(payload=new.payload, **same)
        if new.resume_from is not None and (old := self.jobs.get((job.org_id, new.resume_from))):
            made.chunks |= {key: value for key, value in old.chunks.items() if not key.startswith(ATTEMPT_KEYS)}
        if new.idempotency_key is not None:
            self._keys[job.org_id, new.idempotency_key] = made

    def _claim(self, request: ClaimRequest, answer: list[Claim], now: Instant) -> None:
        self._cancel_late(now)
        judge_claims(self.jobs, request, answer, now)

    def _cancel_late(self, now: Instant) -> list[SweptJob]:
        """What did not start in time ends, as soon as anybody looks."""
        late = [job for job in self.jobs.values() if job.too_late(now)]
        for job in late:
            job.cancel("system", "too_late", now)
        return [SweptJob(job.org_id, job.job_id, "canceled") for job in late]

    def _settle_times(self, _: SettleTimes, answer: list[SweptJob], now: Instant) -> None:
        agree("what is too late", _by_id(answer), _by_id(self._cancel_late(now)))

    def _renew(self, request: RenewRequest, answer: list[LeaseRenewal], now: Instant) -> None:
        agree("answer to the heartbeat", answer, [self._renewal(lease, request, now) for lease in request.leases])

    def _renewal(self, lease: Lease, request: RenewRequest, now: Instant) -> LeaseRenewal:
        job = self._holder(lease, now)
        if job is None or job.lease is None:
            return LeaseRenewal(lease, held=False)
        job.lease.expires_at = after(now, request.lease_seconds)
        return LeaseRenewal(lease, held=True, cancel_reason=job.cancel_reason)

    def _record(self, recording: Recording, answer: WriteResult, now: Instant) -> None:
        job, write = self._holder(recording.lease, now), recording.write
        right = WriteResult.REFUSED if job is None else WriteResult.WRITTEN
        if job is not None and isinstance(write, Progress | Partial | Checkpoint):
            job.write(write, now)
            right = right if isinstance(write, Checkpoint) else write_result(job.limit_reached)
        elif job is not None and not isinstance(write, Progress | Partial | Checkpoint):
            job.end(write, now)
        agree(f"what {type(write).__name__} of attempt {recording.lease.attempt} is answered", answer, right)

    def _holder(self, lease: Lease, now: Instant) -> ModelJob | None:
        """The job that this lease gives the right to write for."""
        job = self.jobs.get((lease.org_id, lease.job_id))
        return job if job is not None and job.held_by(lease.attempt, now) else None

    def _cancel(self, request: CancelRequest, answer: JobView | None, now: Instant) -> None:
        job = self.jobs.get((request.org_id, request.job_id))
        if job is not None and not job.terminal:
            if job.live(now):
                job.ask_to_stop(request.by, request.reason, now)
            else:
                job.cancel(request.by, request.reason, now)
        shown = answer and (answer.job.status, answer.job.cancel_requested_at, answer.lease_expires_at)
        expected = job and (job.status, job.cancel_requested_at, job.lease and job.lease.expires_at)
        agree("answer to the cancel", shown, expected)

    def _list_sweepable(self, request: ListSweepable, answer: list[Lease], now: Instant) -> None:
        came = list(self.jobs)
        behind = came.index(request.after) + 1 if request.after in came else 0
        found = [
            Lease(*key, self.jobs[key].attempt)
            for key in came[behind:]
            if self.jobs[key].sweepable(now, request.grace_seconds)
        ]
        agree("page of the sweep", answer, found[: request.limit])

    def _sweep(self, request: SweepOne, answer: SweptJob | None, now: Instant) -> None:
        lease = request.lease
        job = self.jobs.get((lease.org_id, lease.job_id))
        right = job is not None and job.attempt == lease.attempt and job.sweepable(now, request.grace_seconds)
        if job is None or not right:
            agree("answer to the sweep", answer, None)
            return
        outcome = job.swept(now, request.backoff.delay(job.retry_count, self._jitter))
        job.end(outcome, now)
        agree("answer to the sweep", answer, SweptJob(lease.org_id, lease.job_id, type(outcome).__name__.lower()))

    def _sweep_all(self, request: SweepAll, answer: list[SweptJob], now: Instant) -> None:
        taken = []
        for _, job in sorted(self.jobs.items(), key=lambda item: (item[1].job_id, item[1].org_id)):
            if job.sweepable(now, request.grace_seconds):
                outcome = job.swept(now, request.backoff.delay(job.retry_count, self._jitter))
                job.end(outcome, now)
                taken.append(SweptJob(job.org_id, job.job_id, type(outcome).__name__.lower()))
        agree("answer to the sweep", answer[: len(taken)], taken)
        agree("what is too late", _by_id(answer[len(taken) :]), _by_id(self._cancel_late(now)))

    def _tidy(self, _: TidyLanes, __: int, ___: Instant) -> None:
        """Which lanes are there is the store's own business; how many jobs wait is in the totals."""


_SUBMITTED = (
    *("org_id", "job_id", "analysis", "priority_class", "request_payload_hash"),
    *("queued_at", "timeout_seconds", "max_retries", "run_at", "start_by"),
)
_JUDGES: dict[type, Callable[[Oracle, Any, Any, Instant], None]] = {
    NewJob: Oracle._submit,
    ClaimRequest: Oracle._claim,
    RenewRequest: Oracle._renew,
    Recording: Oracle._record,
    CancelRequest: Oracle._cancel,
    ListSweepable: Oracle._list_sweepable,
    SweepOne: Oracle._sweep,
    SweepAll: Oracle._sweep_all,
    TidyLanes: Oracle._tidy,
    SettleTimes: Oracle._settle_times,
}


def _by_id(swept: list[SweptJob]) -> list[SweptJob]:
    return sorted(swept, key=attrgetter("job_id"))


def _seen(answer: SubmitOutcome) -> tuple[type, str | None]:
    """What an answer says, without the job's details: those are compared with all others."""
    if isinstance(answer, QueueFull):
        return QueueFull, answer.scope
    return type(answer), None if isinstance(answer, KeyReused) else answer.job.job_id


def _same_wish(one: ModelJob, new: NewJob) -> bool:
    job = new.job
    return not one.terminal and (one.org_id, one.request_payload_hash) == (job.org_id, job.request_payload_hash)
