"""What a claim must have handed out. The contract leaves a choice between orgs: it is judged, not predicted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.instant import Instant, after
from langlauf.domain.state import Status
from tests.simulation.disagreement import Disagreement, agree
from tests.simulation.model import ModelJob


class Room:
    """The free slots: the worker's own, and what every limit leaves. Only live leases count.

    For a job that waits, the slots of those that were lost a moment ago are taken as well: the sweep gives them back.
    """

    def __init__(self, request: ClaimRequest, jobs: Iterable[ModelJob], now: Instant) -> None:
        self._request = request
        self._slots = request.slots
        known = list(jobs)
        self._running = Counter(scope for job in known if job.live(now) for scope, _ in self._limits(job))
        lost = [job for job in known if job.slot_is_kept(now, request.lease_seconds)]
        self._kept_slots = len(lost)
        self._kept = Counter(scope for job in lost for scope, _ in self._limits(job))

    def _limits(self, job: ModelJob) -> Iterator[tuple[str, int]]:
        """Every limit that a job counts against."""
        yield "all", self._request.max_running
        if job.analysis in self._request.limits:
            yield f"analysis {job.analysis}", self._request.limits[job.analysis]

    def has(self, job: ModelJob) -> bool:
        """Whether the job may start beside those that run."""
        free = self._slots - (self._kept_slots if job.status is Status.QUEUED else 0)
        return free > 0 and not self.full_for(job)

    def full_for(self, job: ModelJob) -> bool:
        """Whether one of the limits on the job is reached, whatever slots the worker has."""
        kept = self._kept if job.status is Status.QUEUED else Counter[str]()
        return any(self._running[scope] + kept[scope] >= most for scope, most in self._limits(job))

    def take(self, job: ModelJob) -> None:
        """The job starts."""
        self._slots -= 1
        self._running.update(scope for scope, _ in self._limits(job))


def judge_claims(
    jobs: dict[tuple[str, str], ModelJob], request: ClaimRequest, claims: Sequence[Claim], now: Instant
) -> None:
    """Each job that was handed out could be, none was left that had to be, and the order was right."""
    room = Room(request, jobs.values(), now)
    known = [job for job in jobs.values() if job.analysis in request.analyses and job.claimable(now)]
    taken: list[ModelJob] = []
    for made in claims:
        job = jobs.get((made.lease.org_id, made.lease.job_id))
        if job is None or job not in known or job in taken:
            raise Disagreement(f"{made.lease.job_id} was handed out, and nobody may have it")
        if not room.has(job):
            raise Disagreement(f"{job.job_id} was handed out over a limit")
        room.take(job)
        taken.append(job)
    left = [job for job in known if job not in taken and not room.full_for(job)]
    for job in left:
        if room.has(job):
            raise Disagreement(f"{job.job_id} was not handed out although there is room")
    _judge_order(taken, left, now)
    for job, made in zip(taken, claims, strict=True):
        job.claim(request.worker_id, now, request.lease_seconds)
        _judge_content(job, made, now, request.lease_seconds)


def _judge_order(taken: list[ModelJob], left: list[ModelJob], now: Instant) -> None:
    """What had started goes first, by its time; of one org's waiting jobs the urgent ones, then as they came."""
    for job in taken:
        for other in left:
            if job.due(now):
                wrong = other.due(now) and (other.next_attempt_at or 0) < (job.next_attempt_at or 0)
            else:
                wrong = other.due(now) or (other.org_id == job.org_id and _turn(other) < _turn(job))
            if wrong:
                raise Disagreement(f"{job.job_id} was handed out before {other.job_id}")


def _turn(job: ModelJob) -> tuple[bool, Instant, str]:
    return job.priority_class != "expedite", job.queued_at, job.job_id


def _judge_content(job: ModelJob, made: Claim, now: Instant, lease_seconds: float) -> None:
    """The claim tells the worker what it needs to know."""
    agree("attempt", made.lease.attempt, job.attempt)
    agree("payload", made.payload, job.payload)
    agree("times of the claim", (made.started_at, made.expires_at), (now, after(now, lease_seconds)))
    agree("progress in the claim", made.progress_percent, job.progress_percent)
    agree("retries in the claim", (made.retry_count, made.max_retries), (job.retry_count, job.max_retries))
