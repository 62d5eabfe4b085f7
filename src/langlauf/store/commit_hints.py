"""Wake-ups after a commit. They are sent by the commit itself: the caller may be gone."""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from langlauf.domain.attempt import Checkpoint, Claim, ClaimRequest, Partial, Progress, WriteResult
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import Accepted, JobRecord, NewJob
from langlauf.domain.outcome import Crashed, Released, Retry
from langlauf.domain.read_models import CancelRequest, JobView, SweptJob
from langlauf.domain.result import HoldRequest
from langlauf.store.group_commit import Recording
from langlauf.store.retention import RetireBatch


class CommitHints(Protocol):
    """Receives the wake-ups: the hints of this process, or a notifier that also reaches other hosts."""

    def work(self) -> None:
        """Signal that there may be a job to claim."""

    def claim_again(self) -> None:
        """Signal that a job that waits may start now, because another one has ended."""

    def work_after(self, seconds: float) -> None:
        """Signal that there will be a job to claim in a while."""

    def attention(self) -> None:
        """Signal a cancel request for a running job."""

    def changed(self, job_ids: Iterable[str]) -> None:
        """Signal that these jobs may have changed."""

    def org_changed(self, org_ids: Iterable[str]) -> None:
        """Signal that jobs of these orgs may have changed."""


def announce_batch(hints: CommitHints, done: Sequence[tuple[object, object]], standing: Collection[Claim] = ()) -> None:
    """Send the wake-ups that follow from the operations of a batch and their answers: what most of them say, once.

    `standing` is what the standing claims that joined the batch got. Jobs that were started with it need no search.
    """
    jobs: list[str] = []
    ended = False
    orgs: set[str] = set()
    accepted: dict[str, JobRecord] = {}
    started = {claim.lease.job_id for claim in standing}
    for operation, answer in done:
        if type(operation) is NewJob:
            if type(answer) is Accepted:
                accepted[answer.job.job_id] = answer.job
                orgs.add(answer.job.org_id)
        elif type(operation) is Recording and type(operation.write) not in _GIVEN_BACK:
            if answer:
                jobs.append(operation.lease.job_id)
                orgs.add(operation.lease.org_id)
                ended = ended or type(operation.write) not in _UNDER_WAY
        else:
            announce(hints, operation, answer)
            ended = ended or (type(operation) is Recording and bool(answer))
            if type(operation) is ClaimRequest and isinstance(answer, list):
                started.update(claim.lease.job_id for claim in answer)
    if ended:
        hints.claim_again()
    if jobs:
        hints.changed(jobs)
    if orgs:
        hints.org_changed(orgs)
    _hint_starts(hints, [job for job_id, job in accepted.items() if job_id not in started])


#: Ends of attempts after which their job may start again.
_GIVEN_BACK = frozenset({Retry, Released, Crashed})
#: Writes after which the attempt goes on.
_UNDER_WAY = frozenset({Progress, Partial, Checkpoint})


def announce(hints: CommitHints, operation: object, answer: object) -> None:
    """Send the wake-ups that follow from an operation and its answer."""
    match operation, answer:
        case NewJob(), Accepted(job=job):
            _hint_starts(hints, [job])
            hints.org_changed((job.org_id,))
        case ClaimRequest(), list(claims) if claims:
            hints.changed(claim.lease.job_id for claim in claims)
            hints.org_changed({claim.lease.org_id for claim in claims})
        case Recording(lease=lease, write=write), WriteResult() if answer:
            hints.changed((lease.job_id,))
            hints.org_changed((lease.org_id,))
            if isinstance(write, Retry):
                hints.work_after(write.delay_seconds)
            elif isinstance(write, Released | Crashed):
                hints.work()
        case CancelRequest(org_id=org_id, job_id=job_id), JobView():
            hints.changed((job_id,))
            hints.org_changed((org_id,))
            hints.attention()
        case HoldRequest(org_id=org_id), JobView(job=job):
            hints.changed((job.job_id,))
            hints.org_changed((org_id,))
        case RetireBatch(jobs=[_, *_] as jobs), _:
            hints.changed(job_id for _, job_id in jobs)
            hints.org_changed({org_id for org_id, _ in jobs})
        case _, SweptJob(org_id=org_id, job_id=job_id):
            hints.changed((job_id,))
            hints.org_changed((org_id,))
            hints.work()


def _hint_starts(hints: CommitHints, jobs: Sequence[JobRecord]) -> None:
    if any(job.ticket >= 0 for job in jobs):
        hints.work()
    for job in jobs:
        if job.ticket < 0:  # it waits for its time
            hints.work_after(seconds_between(job.queued_at, -job.ticket))
