"""Those who use the store: workers with beliefs of their own, people, and the sweep. A seed decides what they do next.

A worker acts on what it was told, not on what is so: paused past its lease, told that a commit failed, or told nothing
at all, it writes what the store must refuse.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from langlauf.domain.attempt import Checkpoint, Claim, ClaimRequest, Lease, Partial, Progress, Write
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.job import INLINE_REF, CanceledBy, JobRecord, NewJob, payload_hash
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Released, Retry
from langlauf.domain.read_models import CancelRequest
from langlauf.domain.state import Status
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.claim import RenewRequest, SettleTimes
from langlauf.store.sqlite.end import SweepOne, TidyLanes
from tests.simulation.environment import ListSweepable, SweepAll
from tests.simulation.model import views_named
from tests.simulation.oracle import Oracle
from tests.simulation.rules import ANALYSES, BACKOFF, GRACE_SECONDS, LEASE_SECONDS, MOST_JOBS, Rules

T = TypeVar("T")


@dataclass(slots=True)
class Worker:
    """What a worker believes to hold. While paused it does nothing, and forgets nothing."""

    worker_id: str
    analyses: tuple[str, ...]
    claims: list[Claim] = field(default_factory=list)
    paused: int = 0


class Actors:
    """Deals out the operations of one schedule."""

    def __init__(self, chance: random.Random, rules: Rules, oracle: Oracle, *, sweeps_at_once: bool) -> None:
        self._chance = chance
        self._rules = rules
        self._oracle = oracle
        self._sweeps_at_once = sweeps_at_once
        self._made = 0
        self._workers = [self._new_worker() for _ in range(chance.randint(2, 3))]
        self._again: list[Any] = []
        self._page: list[Lease] = []
        self._past: list[Claim] = []

    # -- the next operation --------------------------------------------------------------------------------------------

    def operation(self, now: Instant) -> Any:
        """What somebody does next."""
        if self._again and self._chance.random() < 0.8:
            return self._repeated(self._again.pop(), now)
        turn = self._chance.random() * _ALL_TURNS
        for until, action in _TURNS:
            if turn < until and (operation := action(self, now)) is not None:
                return operation
        return self.claim()

    def wait(self, now: Instant) -> Instant:
        """How long nothing happens: an instant, a while, or just until something changes by itself."""
        luck = self._chance.random()
        if luck < 0.3:
            return self._chance.randint(0, SECOND)
        if luck < 0.38:
            return round(LEASE_SECONDS * SECOND / 2)
        if luck < 0.56 and (ahead := self._ahead(now)):
            return self._some(ahead) + self._chance.randint(-1, 1)
        return self._chance.randint(0, 3)

    def _ahead(self, now: Instant) -> list[Instant]:
        """How long it is until each of the things that happen by themselves."""
        moments = [moment for job in self._oracle.jobs.values() for moment in job.moments(GRACE_SECONDS)]
        return [moment - now for moment in moments if moment > now]

    def hear(self, operation: Any, answer: Any) -> None:
        """An operation came back, and this is what its caller was told."""
        if isinstance(operation, ClaimRequest):
            for worker in self._workers:
                if worker.worker_id == operation.worker_id:
                    worker.claims += answer
            self._past += answer
        elif isinstance(operation, ListSweepable):
            self._page += answer
        elif isinstance(operation, Recording):
            ended = not isinstance(operation.write, Progress | Partial | Checkpoint)
            if ended or not answer:
                self._forget(operation.lease)
        elif isinstance(operation, RenewRequest):
            for renewal in answer:
                if not renewal.held:
                    self._forget(renewal.lease)

    def hear_failure(self, operation: Any) -> None:
        """An operation failed, as far as its caller knows: it will be tried again."""
        self._again.append(operation)

    def _forget(self, lease: Lease) -> None:
        """A worker that was refused, or has ended an attempt, mostly believes it."""
        if self._chance.random() < 0.7:
            for worker in self._workers:
                worker.claims = [claim for claim in worker.claims if claim.lease != lease]

    def _repeated(self, operation: Any, now: Instant) -> Any:
        """The same once more; a client that submits again gets a new id for it."""
        if isinstance(operation, NewJob):
            job = msgspec.structs.replace(operation.job, job_id=self._name("job"), queued_at=now, updated_at=now)
            return msgspec.structs.replace(operation, job=job)
        return operation

    # -- people --------------------------------------------------------------------------------------------------------

    def submit(self, now: Instant) -> NewJob | None:
        """Somebody wants something, perhaps for the second time, perhaps again after it ended."""
        if len(self._oracle.jobs) >= MOST_JOBS:
            return None
        old = self._some([job for job in self._oracle.jobs.values() if job.terminal] or [None])
        again = old is not None and self._chance.random() < 0.5
        org_id = old.org_id if old and again else self._some(self._rules.orgs)
        analysis = old.analysis if old and again else self._some(ANALYSES)
        payload = old.payload if old and again else f'{{"query":"{self._some(("Bern", "Brig", "Biel"))}"}}'
        job = JobRecord(
            job_id=self._name("job"),
            org_id=org_id,
            analysis=analysis,
            status=Status.QUEUED,
            priority_class="expedite" if self._chance.random() < 0.2 else "default",
            request_payload_hash=payload_hash(analysis, payload),
            request_payload_ref=INLINE_REF,
            queued_at=now,
            updated_at=now,
            timeout_seconds=self._some((5.0, 20.0, 1800.0, 1800.0)),
            max_retries=self._chance.randint(0, 2),
            trace_id="trace",
            request_id="request",
            retry_of=old.job_id if old and again else None,
            **self._times(now),
        )
        return NewJob(
            job=job,
            payload=payload,
            idempotency_key=self._some(("key-1", "key-2")) if self._chance.random() < 0.25 else None,
            refuse_duplicate=not again and self._chance.random() < 0.7,
            resume_from=old.job_id if old and again else None,
            max_waiting_org=self._rules.max_waiting_org,
            max_waiting_all=self._rules.max_waiting_all,
            max_waiting_analysis=self._rules.max_waiting_analysis,
        )

    def _times(self, now: Instant) -> dict[str, Any]:
        """When a job may start, and when it is too late for that."""
        if not self._rules.timed:
            return {}
        run_at = now + self._chance.randint(-1, 8) * SECOND if self._chance.random() < 0.5 else None
        start_by = (run_at or now) + self._chance.randint(1, 6) * SECOND if self._chance.random() < 0.3 else None
        return {"run_at": run_at, "start_by": start_by}

    def cancel(self, _: Instant) -> CancelRequest:
        """Somebody wishes a job stopped, whatever became of it, or one that is not theirs."""
        org_id, job_id = self._some(list(self._oracle.jobs) or [("org-a", "none")])
        if self._chance.random() < 0.05:
            org_id = "org-z"
        by: CanceledBy = "user" if self._chance.random() < 0.5 else "system"
        return CancelRequest(org_id=org_id, job_id=job_id, by=by, reason=self._name("wish"), request_id="request")

    # -- the sweep -----------------------------------------------------------------------------------------------------

    def sweep(self, now: Instant) -> ListSweepable | SweepOne | SweepAll | TidyLanes | SettleTimes:
        """A look for lost attempts, or the next of those that an earlier look found; two sweeps may find the same."""
        luck = self._chance.random()
        if self._rules.timed and luck > 0.7 and not self._sweeps_at_once:
            return SettleTimes()
        if self._sweeps_at_once:
            return self.sweep_all() if luck > 0.05 else TidyLanes()
        if self._page and luck < 0.7:
            lease = self._some(self._page)
            if luck < 0.6:
                self._page.remove(lease)
            return self.sweep_one(lease)
        if luck > 0.85 and (leases := self._overdue(now) or [claim.lease for claim in self._past]):
            return self.sweep_one(self._some(leases))
        if luck < 0.05:
            return TidyLanes()
        return self.list_sweepable(self._some([("", ""), *self._oracle.jobs]) if luck < 0.2 else ("", ""))

    def _overdue(self, now: Instant) -> list[Lease]:
        """What a sweep elsewhere has found."""
        jobs = self._oracle.jobs.items()
        return [Lease(*key, job.attempt) for key, job in jobs if job.sweepable(now, GRACE_SECONDS)]

    def list_sweepable(self, position: tuple[str, str]) -> ListSweepable:
        """A page."""
        return ListSweepable(after=position, limit=self._chance.randint(1, 3), grace_seconds=GRACE_SECONDS)

    def sweep_one(self, lease: Lease) -> SweepOne:
        """One of a page."""
        return SweepOne(lease=lease, grace_seconds=GRACE_SECONDS, backoff=BACKOFF)

    def sweep_all(self) -> SweepAll:
        """All there is to take back."""
        return SweepAll(limit=self._chance.randint(1, 3), grace_seconds=GRACE_SECONDS, backoff=BACKOFF)

    # -- workers -------------------------------------------------------------------------------------------------------

    def work(self, now: Instant) -> Any:
        """A worker claims, beats or writes, as it believes it may."""
        worker = self._some(self._workers)
        if worker.paused:
            worker.paused -= 1
            return None
        luck = self._chance.random()
        if luck < 0.04:
            worker.paused = self._chance.randint(1, 4)
        elif luck < 0.07:
            self._workers[self._workers.index(worker)] = self._new_worker()
        elif luck < 0.25 or not worker.claims:
            # There is little to see in a claim while nobody waits.
            waits = any(job.claimable(now) for job in self._oracle.jobs.values())
            return self.claim(worker) if waits or luck < 0.1 else None
        elif luck < 0.4:
            return RenewRequest(tuple(claim.lease for claim in worker.claims), LEASE_SECONDS)
        else:
            return self.write(self._some(worker.claims))
        return None

    def late(self, now: Instant) -> Any:
        """A write of an attempt that is long over, above all where another one has taken its place."""
        jobs = self._oracle.jobs
        overtaken = [
            claim
            for claim in self._past
            if (job := jobs[claim.lease.org_id, claim.lease.job_id]).live(now) and job.attempt > claim.lease.attempt
        ]
        choices = overtaken or self._past
        if not choices:
            return None
        if self._chance.random() < 0.1:
            return RenewRequest((self._some(choices).lease,), LEASE_SECONDS)
        return self.write(self._some(choices))

    def claim(self, worker: Worker | None = None) -> ClaimRequest:
        """A worker with some free slots asks for work."""
        worker = worker or self._some(self._workers)
        return ClaimRequest(
            worker_id=worker.worker_id,
            slots=self._chance.randint(1, 3),
            analyses=worker.analyses,
            lease_seconds=LEASE_SECONDS,
            max_running=self._rules.max_running,
            limits=self._rules.limits,
            max_running_org=self._some(self._rules.org_limits),
        )

    def write(self, claim: Claim) -> Recording:
        """Something that an attempt tells, or its end."""
        return Recording(claim.lease, self._progress() if self._chance.random() < 0.55 else self._end(claim))

    def _progress(self) -> Write:
        luck, percent, replayed = self._chance.random(), self._chance.randint(0, 100), self._chance.random() < 0.2
        if luck < 0.35:
            step = self._some((None, "on", "off"))
            return Progress(percent=percent, step=step, replayed=replayed, bounds=self._rules.bounds)
        if luck < 0.7:
            name = self._name("result")
            return Partial(
                result_id=name,
                payload="{}",
                percent=percent,
                replayed=replayed,
                views=views_named(name),
                bounds=self._rules.bounds,
            )
        return Checkpoint(key=self._some(("chunk-1", "chunk-2")), payload=f"{self._chance.randint(1, 9)}")

    def _end(self, claim: Claim) -> Write:
        luck = self._chance.random()
        if luck < 0.3:
            name = self._name("result")
            return Completed(result_id=name, payload="{}", views=views_named(name))
        if luck < 0.45:
            return Failed(code="internal", message="no", retryable=False)
        if luck < 0.65 and claim.retry_count < claim.max_retries:
            late = self._chance.random() < 0.3
            return Retry(code="timeout", message="slow", delay_seconds=self._chance.randint(0, 9), timed_out=late)
        if luck < 0.8:
            return Canceled(by="worker", reason="stopped")
        return Crashed("its process died") if luck < 0.92 else Released()

    # -- chance --------------------------------------------------------------------------------------------------------

    def _some(self, choices: Sequence[T]) -> T:
        return choices[int(self._chance.random() * len(choices))]

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    def _new_worker(self) -> Worker:
        known = ANALYSES if self._chance.random() < 0.8 else (self._some(ANALYSES),)
        return Worker(self._name("worker"), known)


#: Who has the next turn, and up to which number; one that cannot act passes it on.
_TURNS: tuple[tuple[int, Callable[[Actors, Instant], Any]], ...] = (
    (55, Actors.work),
    (68, Actors.late),
    (82, Actors.sweep),
    (90, Actors.cancel),
    (100, Actors.submit),
)
_ALL_TURNS = _TURNS[-1][0]
