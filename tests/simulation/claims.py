"""What a claim must have handed out. The contract leaves a choice between orgs: it is judged, not predicted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.instant import Instant, after
from tests.simulation.disagreement import Disagreement, agree
from tests.simulation.model import ModelJob


class Room:
    """The free slots: the worker's own, and what every limit leaves. Only live leases count.

    For a job that was not given back, the slots of those that were lost a moment ago are taken as well: the sweep gives
    them back.
    """

    def __init__(self, request: ClaimRequest, jobs: Iterable[ModelJob], now: Instant) -> None:
        self._request = request
        self._slots = request.slots
        self._kept_slots = 0
        self._running: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        for job in jobs:
            if job.live(now):
                self._running.update(scope for scope, _ in self._limits(job))
            elif job.slot_is_kept(now, request.lease_seconds):
                self._kept_slots += 1
                self._kept.update(scope for scope, _ in self._limits(job))

    def _limits(self, job: ModelJob) -> Iterator[tuple[str, int]]:
        """Every limit that a job counts against."""
        yield "all", self._request.max_running
        if job.analysis in self._request.limits:
            yield f"analysis {job.analysis}", self._request.limits[job.analysis]
        if self._request.max_running_org is not None:
            yield f"org {job.org_id}", self._request.max_running_org

    def has(self, job: ModelJob) -> bool:
        """Whether the job may start beside those that run."""
        waits = not job.given_back
        return self._slots > waits * self._kept_slots and all(
            self._running[scope] + waits * self._kept[scope] < most for scope, most in self._limits(job)
        )

    def take(self, job: ModelJob) -> None:
        """The job starts."""
        self._slots -= 1
        self._running.update(scope for scope, _ in self._limits(job))

    def has_instead(self, job: ModelJob, taken: ModelJob) -> bool:
        """Whether a job could have started in another one's place."""
        self._slots += 1
        self._running.subtract(scope for scope, _ in self._limits(taken))
        had = self.has(job)
        self.take(taken)
        return had


def judge_claims(
    jobs: dict[tuple[str, str], ModelJob], request: ClaimRequest, claims: Sequence[Claim], now: Instant
) -> None:
    """Each job that was handed out could be, none was left that had to be, and the order was right."""
    room = Room(request, jobs.values(), now)
    left = [job for job in jobs.values() if job.analysis in request.analyses and job.claimable(now)]
    taken: list[ModelJob] = []
    for made in claims:
        job = jobs.get((made.lease.org_id, made.lease.job_id))
        if job is None or job not in left:
            raise Disagreement(f"{made.lease.job_id} was handed out, and nobody may have it")
        if not room.has(job):
            raise Disagreement(f"{job.job_id} was handed out over a limit")
        room.take(job)
        left.remove(job)
        taken.append(job)
    for other in left:
        if room.has(other):
            raise Disagreement(f"{other.job_id} was not handed out although there is room")
        for job in taken:
            if _goes_before(other, job, now) and room.has_instead(other, job):
                raise Disagreement(f"{job.job_id} was handed out before {other.job_id}")
    for job, made in zip(taken, claims, strict=True):
        job.claim(request.worker_id, now, request.lease_seconds)
        _judge_content(job, made, now, request.lease_seconds)


def _goes_before(job: ModelJob, other: ModelJob, now: Instant) -> bool:
    """What was given back goes first, by its time; of one org its retries by theirs, then urgent ones, then the oldest.

    Between orgs the turns decide, which are not told here.
    """
    if job.given_back or other.given_back:
        both = job.given_back and other.given_back
        return (job.next_attempt_at or 0) < (other.next_attempt_at or 0) if both else job.given_back
    if job.org_id != other.org_id:
        return False
    if job.run_at is not None or other.run_at is not None:
        return False  # it came into the line when a claim noticed its time
    if job.due(now) and other.due(now):
        return (job.next_attempt_at or 0) < (other.next_attempt_at or 0)
    if job.due(now) or other.due(now):
        return job.due(now)
    return _turn(job) < _turn(other)


def _turn(job: ModelJob) -> tuple[bool, Instant]:
    """Jobs of the same moment have no order that anybody was told."""
    return job.priority_class != "expedite", job.queued_at


def _judge_content(job: ModelJob, made: Claim, now: Instant, lease_seconds: float) -> None:
    """The claim tells the worker what it needs to know."""
    agree("attempt", made.lease.attempt, job.attempt)
    agree("payload", made.payload, job.payload)
    agree("times of the claim", (made.started_at, made.expires_at), (now, after(now, lease_seconds)))
    agree("progress in the claim", made.progress_percent, job.progress_percent)
    agree("retries in the claim", (made.retry_count, made.max_retries), (job.retry_count, job.max_retries))
