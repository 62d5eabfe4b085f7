"""One job as the contract wants it, in plain Python and without a look at the store's SQL.

Each verb says what must become of the job. What concerns several jobs, and what is answered, is in `oracle.py`. A new
way to end is a case in `end`, a new reason to be swept a line in `sweepable`, a new limit a line in `claims.Room`; what
an actor does with it is drawn in `actors.py`.
"""

from dataclasses import dataclass, field

from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.instant import SECOND, Instant, after
from langlauf.domain.outcome import (
    CANCEL_MARGIN,
    MOST_CRASHES,
    MOST_LOST_LEASES,
    Canceled,
    Completed,
    Crashed,
    Failed,
    Lost,
    Outcome,
    Released,
    Retry,
)
from langlauf.domain.state import TERMINAL, Status

#: Keys of what is kept of attempts that are over.
ATTEMPT_KEYS = "langlauf:attempt:"


def views_named(result_id: str) -> str:
    """The views that go with a snapshot: they say whose they are, so that a mix-up shows."""
    return f'[{{"kind":"markdown","text":"{result_id}"}}]'


@dataclass(slots=True)
class Held:
    """The lease of the attempt that runs."""

    attempt: int
    worker_id: str
    expires_at: Instant
    deadline_at: Instant


@dataclass(slots=True, kw_only=True, eq=False)
class ModelJob:
    """A job and everything that was ever told of it. Fields have the names of the table's columns."""

    org_id: str
    job_id: str
    analysis: str
    priority_class: str
    payload: str
    request_payload_hash: str
    queued_at: Instant
    timeout_seconds: float
    max_retries: int
    run_at: Instant | None = None
    start_by: Instant | None = None
    status: Status = Status.QUEUED
    attempt: int = 0
    progress_percent: int = 0
    step: str | None = None
    error_count: int = 0
    retry_count: int = 0
    lost_count: int = 0
    crash_count: int = 0
    started_at: Instant | None = None
    attempt_started_at: Instant | None = None
    finished_at: Instant | None = None
    next_attempt_at: Instant | None = None
    #: whether it waits because it was lost or released, and not to be retried
    given_back: bool = False
    paced_percent: int = 0
    paced_at: Instant | None = None
    progress_at: Instant | None = None
    cancel_requested_at: Instant | None = None
    canceled_by: str | None = None
    cancel_reason: str | None = None
    error_code: str | None = None
    partial_bytes: int = 0
    limit_reached: str | None = None
    lease: Held | None = None
    #: the kinds of its events, the ids of its snapshots by kind, the values of its chunks
    log: list[str] = field(default_factory=lambda: ["job.queued"])
    snapshots: dict[str, str] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)

    # -- what is so ----------------------------------------------------------------------------------------------------

    @property
    def terminal(self) -> bool:
        """Whether it has ended for ever."""
        return self.status in TERMINAL

    @property
    def event_seq(self) -> int:
        """The number of its last event."""
        return len(self.log)

    @property
    def partial_count(self) -> int:
        """How many partial snapshots were ever written."""
        return len(self.snapshots) - (self.status is Status.COMPLETED)

    @property
    def result_id(self) -> str | None:
        """Its newest snapshot."""
        return next(reversed(self.snapshots), None)

    def live(self, now: Instant) -> bool:
        """Whether a worker holds it. Only such jobs count against a limit."""
        return self.lease is not None and self.lease.expires_at > now

    def held_by(self, attempt: int, now: Instant) -> bool:
        """The fence: whether this attempt, and no other, may write now."""
        return self.lease is not None and self.lease.attempt == attempt and self.live(now)

    def due(self, now: Instant) -> bool:
        """Whether it had started, nobody has it, and it may go on."""
        return self.lease is None and self.next_attempt_at is not None and self.next_attempt_at <= now

    def claimable(self, now: Instant) -> bool:
        """Whether a worker may get it."""
        if self.status is Status.QUEUED:
            return (self.run_at is None or self.run_at <= now) and not self.too_late(now)
        return self.due(now)

    def too_late(self, now: Instant) -> bool:
        """Whether it should have started by now."""
        return self.status is Status.QUEUED and self.start_by is not None and self.start_by <= now

    def sweepable(self, now: Instant, grace_seconds: float) -> bool:
        """Whether its worker vanished, or did not stop it in time."""
        if self.lease is None:
            return False
        wished = self.cancel_requested_at
        return (
            self.lease.expires_at <= now
            or after(self.lease.deadline_at, grace_seconds) <= now
            or (wished is not None and after(wished, grace_seconds + CANCEL_MARGIN) <= now)
        )

    def slot_is_kept(self, now: Instant, lease_seconds: float) -> bool:
        """Whether it was lost and waits for the sweep: its slot is kept for it, though not for ever."""
        lease, wished = self.lease, self.cancel_requested_at is not None
        return lease is not None and not wished and lease.expires_at <= now < after(lease.expires_at, lease_seconds)

    # -- what happens --------------------------------------------------------------------------------------------------

    def claim(self, worker_id: str, now: Instant, lease_seconds: float) -> None:
        """An attempt starts. Its number is the fencing token."""
        self.attempt += 1
        self.started_at = self.started_at or now
        self.attempt_started_at = now
        self.next_attempt_at = None
        self.paced_percent = self.progress_percent
        self.paced_at = self.progress_at = None if self.progress_percent else now
        if self.status is Status.QUEUED:
            self.status = Status.RUNNING
        self.lease = Held(self.attempt, worker_id, after(now, lease_seconds), after(now, self.timeout_seconds))
        self.log.append("job.running" if self.attempt == 1 else "job.attempt_started")

    def write(self, write: Progress | Partial | Checkpoint, now: Instant) -> None:
        """The attempt that holds the job writes while it runs. What is there already, and no news, changes nothing."""
        if isinstance(write, Checkpoint):
            self.chunks.setdefault(write.key, write.payload)
            return
        percent = max(self.progress_percent, min(99, int(write.percent or 0)))
        if self._past_bounds(write):
            return
        if isinstance(write, Partial) and write.result_id in self.snapshots:
            return
        if isinstance(write, Progress) and percent == self.progress_percent and write.step in {None, self.step}:
            return
        self.limit_reached = self._limit(write) or self.limit_reached
        self._pace(percent, write, now)
        self.progress_percent = percent
        self.step = write.step or self.step
        if isinstance(write, Partial) and self.limit_reached is None:
            self.snapshots[write.result_id] = "partial"
            self.partial_bytes += len(write.payload or "") + len(write.views or "")
            self.status = Status.PARTIAL
            self.log.append("job.partial")
        else:
            self.log.append("job.progress")

    def _past_bounds(self, write: Progress | Partial) -> bool:
        """Whether the log has said that nothing of this kind follows."""
        return self.limit_reached == "events" or (self.limit_reached == "partials" and isinstance(write, Partial))

    def _limit(self, write: Progress | Partial) -> str | None:
        """The bound that is reached by this write: of its log, whose end has room, or of its stored partials."""
        if self.event_seq + 1 >= write.bounds.last_progress_event:
            return "events"
        if isinstance(write, Progress):
            return None
        more = len(write.payload or "") + len(write.views or "")
        return "partials" if self.partial_bytes + more > write.bounds.partial_bytes else None

    def _pace(self, percent: int, write: Progress | Partial, now: Instant) -> None:
        """The pace of an attempt counts from its start, or from where it got by itself beyond what it found done."""
        rose = percent > self.progress_percent
        if rose or write.replayed:
            self.progress_at = now
        if write.replayed or (rose and self.paced_at is None):
            self.paced_percent, self.paced_at = percent, now

    def ask_to_stop(self, by: str, reason: str, now: Instant) -> None:
        """Somebody wishes that the worker stops it. The first wish counts."""
        if self.cancel_requested_at is None:
            self.cancel_requested_at, self.canceled_by, self.cancel_reason = now, by, reason
            self.log.append("job.cancel_requested")

    def end(self, outcome: Outcome | Crashed, now: Instant) -> None:
        """The attempt is over. A job that is wished to stop goes on after no kind of end."""
        self.lease = None
        match outcome:
            case Completed():
                self.snapshots[outcome.result_id] = "final"
                self.progress_percent = 100
                self.paced_at = self.progress_at = None
                self._finish(Status.COMPLETED, now)
            case Failed():
                self._fail(outcome, now)
            case Canceled():
                self.cancel(outcome.by, outcome.reason, now)
            case _ if self.cancel_requested_at is not None:
                self.cancel("system", "it was wished to stop", now)
            case Retry():
                self._keep_attempt("retried", f'"{outcome.code}"', now)
                self.retry_count += 1
                self.error_count += 1
                self.next_attempt_at, self.given_back = after(now, outcome.delay_seconds), False
                self.log += ["job.timeout"] * outcome.timed_out + ["job.retry_scheduled"]
            case Crashed():
                self.crash_count += 1
                if self.crash_count == MOST_CRASHES:
                    self.error_code = "worker_lost"
                    self.error_count += 1
                    self._finish(Status.FAILED, now)
                else:
                    self._keep_attempt("lost", "null", now)
                    self.next_attempt_at, self.given_back = now, True
                    self.log.append("job.lease_lost")
            case Released() | Lost():
                lost = isinstance(outcome, Lost)
                self._keep_attempt("lost" if lost else "released", "null", now)
                self.lost_count += lost
                self.next_attempt_at, self.given_back = now, True
                self.log.append("job.lease_lost" if lost else "job.released")

    def _keep_attempt(self, outcome: str, why: str, now: Instant) -> None:
        """What is known of an attempt outlives the log, among the chunks."""
        self.chunks[f"{ATTEMPT_KEYS}{self.attempt}"] = (
            f'{{"attempt":{self.attempt},"started_at":{self.attempt_started_at},"ended_at":{now},'
            f'"outcome":"{outcome}","why":{why},"host":null,"version":null}}'
        )

    def cancel(self, by: str, reason: str, now: Instant) -> None:
        """It ends because somebody wished it; whoever wished it first is remembered."""
        self.lease = None
        self.canceled_by = self.canceled_by or by
        self.cancel_reason = self.cancel_reason or reason
        self.cancel_requested_at = self.cancel_requested_at or now
        self._finish(Status.CANCELED, now)

    def swept(self, now: Instant, delay_seconds: float) -> Outcome:
        """How the sweep ends an attempt in its worker's place."""
        if self.cancel_requested_at is not None:
            return Canceled(by="system", reason="its worker is gone")
        if self.lease is not None and self.lease.deadline_at <= now:
            if self.retry_count < self.max_retries:
                return Retry(code="timeout", message="", delay_seconds=delay_seconds, timed_out=True)
            code = "timeout_max_retries" if self.max_retries else "timeout"
            return Failed(code=code, message="", retryable=True, timed_out=True)
        if self.lost_count + 1 == MOST_LOST_LEASES:
            return Failed(code="worker_lost", message="", retryable=True)
        return Lost()

    def _fail(self, outcome: Failed, now: Instant) -> None:
        self.error_code = outcome.code
        self.error_count += 1
        self.lost_count += outcome.code == "worker_lost"
        self.log += ["job.timeout"] * outcome.timed_out
        self._finish(Status.FAILED, now)

    def _finish(self, status: Status, now: Instant) -> None:
        self.status = status
        self.finished_at = now
        self.next_attempt_at = None
        if status is not Status.CANCELED:
            self.canceled_by = self.cancel_reason = None
        self.log.append(f"job.{status}")

    def moments(self, grace_seconds: float) -> list[Instant]:
        """The instants at which something about it changes by itself."""
        queued = (self.run_at, self.start_by) if self.status is Status.QUEUED else ()
        moments = [moment for moment in (self.next_attempt_at, *queued) if moment is not None]
        if self.lease is not None:
            deadline = self.lease.deadline_at
            moments += [self.lease.expires_at, deadline, deadline + round(grace_seconds * SECOND)]
            if self.cancel_requested_at is not None:
                moments.append(after(self.cancel_requested_at, grace_seconds + CANCEL_MARGIN))
        return moments
