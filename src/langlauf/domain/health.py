"""Health of a deployment: reports of workers, successes of periodic duties, and the table of rules that are checked."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.statistics import JobCounts, OpsStatistics

# -- table of rules ----------------------------------------------------------------------------------------------------
# A rule that more than one of them checks has its threshold, severity, message and remedy here. A test compares the
# alerts, which are YAML, and the English texts of /ops with it. Why a store takes no writes is in `store/health.py`.

_MIB, _GIB = 1_048_576, 1_073_741_824


class Severity(StrEnum):
    """How severe a violation is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class HealthRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; a threshold of 0 means that any occurrence violates it."""

    name: str
    severity: Severity
    #: a value above it violates the rule
    threshold: float = 0.0
    #: a value above it is BAD, where the rule is a warning at first
    bad_threshold: float = math.inf
    #: what is wrong, on the page /ops and by doctor, in a few words and with figures; /ops has both in German, too
    headline: str = ""
    message: str = ""
    #: the command that doctor prints as the next step
    remedy: str = ""
    #: whether that command needs --store
    remedy_on_store: bool = False
    #: the alert of deploy/prometheus for the same rule
    alert: str | None = None
    #: the threshold of the alert, where it differs: an alert wakes people, doctor and /ops are read by them
    alert_threshold: float | None = None
    alert_severity: str | None = None


STORE_UNWRITABLE = HealthRule(
    name="store_unwritable",
    severity=Severity.BAD,
    headline="The store does not accept writes",
    message="No job is accepted, and none makes progress. Run langlauf doctor to find the cause.",
    remedy="langlauf doctor",
    alert="LanglaufWritesFail",
)
STORE_AWAY = HealthRule(
    name="store_away",
    severity=Severity.BAD,
    message="The store does not answer.",
    remedy="langlauf doctor",
    alert="LanglaufStoreAway",
)
#: Of /ready: a process whose worker has stopped gets no traffic.
WORKER_STOPPED = HealthRule(
    name="worker_stopped",
    severity=Severity.BAD,
    message="A worker of this process has stopped.",
    remedy="langlauf serve",
)
NO_WORKER = HealthRule(
    name="no_worker",
    severity=Severity.BAD,
    headline="No worker is running",
    message="Waiting jobs: {waiting}. They start as soon as a worker runs.",
    remedy="langlauf serve",
    alert="LanglaufNoWorker",
)
#: A warning where the silent workers hold no job. Silence is defined in `domain/health.py`.
SILENT_WORKER = HealthRule(
    name="silent_worker",
    severity=Severity.BAD,
    headline="A worker is silent",
    message="Silent workers: {workers}, the longest for {seconds}. Jobs that other workers take over: {jobs}.",
    remedy="langlauf sweep",
    remedy_on_store=True,
)
UNKNOWN_ANALYSIS = HealthRule(
    name="unknown_analysis",
    severity=Severity.BAD,
    headline="An analysis has no worker",
    message="No running worker knows {analyses}. Waiting jobs: {waiting}.",
    remedy="langlauf worker MODULE:APP",
)
LONG_WAIT = HealthRule(
    name="long_wait",
    severity=Severity.WARN,
    threshold=300.0,
    headline="A job waits too long",
    message="A job of {analysis} has been waiting for {seconds}.",
    remedy="langlauf jobs --org {org}",
    alert="LanglaufJobsWait",
)
FAILURES = HealthRule(
    name="failures",
    severity=Severity.WARN,
    threshold=0.1,
    headline="Many jobs fail",
    message="{failed} of {ended} jobs failed, most often with <code>{code}</code>.",
    remedy="langlauf errors --org {org}",
    alert="LanglaufJobsFail",
)
#: Fewer ended jobs than this say nothing about the share of failures.
MIN_ENDED = 20
SLOW_CANCEL = HealthRule(
    name="slow_cancel",
    severity=Severity.WARN,
    threshold=60.0,
    headline="A cancel takes too long",
    message="Jobs with a requested cancel that still run: {jobs}, the longest for {seconds}.",
    remedy="langlauf sweep",
    remedy_on_store=True,
)
#: In seconds; doctor waits for two sweeps, if that is more. The alert compares a number of jobs.
OVERDUE_LEASES = HealthRule(
    name="overdue_leases",
    severity=Severity.BAD,
    threshold=10.0,
    message="Leases that have expired and were not swept: {jobs}, the longest for {seconds}.",
    remedy="langlauf sweep",
    remedy_on_store=True,
    alert="LanglaufLeasesOverdue",
    alert_threshold=0.0,
)
#: The threshold is a slack in seconds after DUTY_ROUNDS rounds. Doctor warns only where no job is queued or running.
DUTY_STOPPED = HealthRule(
    name="duty_stopped",
    severity=Severity.BAD,
    threshold=60.0,
    remedy="langlauf {command}",
    remedy_on_store=True,
    alert="LanglaufUpkeepStopped",
)
DUTY_ROUNDS = 3
LATE_DELIVERY = HealthRule(
    name="late_delivery",
    severity=Severity.WARN,
    threshold=60.0,
    bad_threshold=900.0,
    remedy="langlauf serve --deliveries 8",
    alert="LanglaufDeliveriesLate",
    alert_threshold=300.0,
)
#: More pending messages than this are a warning, even if none is late.
MANY_DELIVERIES = 10_000
RECEIVERS_DOWN = HealthRule(
    name="receivers_down",
    severity=Severity.WARN,
    remedy="langlauf webhooks list --org ORG",
    alert="LanglaufReceiversDown",
    alert_severity="info",
)
#: In bytes: twice the size at which the write-ahead log is truncated.
LARGE_LOG = HealthRule(
    name="large_log",
    severity=Severity.WARN,
    threshold=128 * _MIB,
    remedy="fuser -v {path}",
    alert="LanglaufLogGrows",
    alert_threshold=256 * _MIB,
)
#: In seconds; a tenth of a lease, if that is more.
CLOCK_SKEW = HealthRule(
    name="clock_skew", severity=Severity.WARN, threshold=2.0, bad_threshold=60.0, remedy="timedatectl status"
)


class DiskRoom(msgspec.Struct, frozen=True):
    """Free bytes and the free share of a disk; less of either violates the rule."""

    free_bytes: int
    free_share: float


LITTLE_DISK = DiskRoom(_GIB, 0.05)
NO_DISK = DiskRoom(100 * _MIB, 0.01)
DISK_SPACE = HealthRule(name="disk_space", severity=Severity.WARN, remedy="df -h {path}")

#: The rules that /ops checks, in the order of its findings.
OPS_RULES = (STORE_UNWRITABLE, NO_WORKER, SILENT_WORKER, UNKNOWN_ANALYSIS, LONG_WAIT, FAILURES, SLOW_CANCEL)
RULES = (
    *OPS_RULES,
    STORE_AWAY,
    WORKER_STOPPED,
    OVERDUE_LEASES,
    DUTY_STOPPED,
    LATE_DELIVERY,
    RECEIVERS_DOWN,
    LARGE_LOG,
    CLOCK_SKEW,
    DISK_SPACE,
)


# -- reports and conditions --------------------------------------------------------------------------------------------

#: Missing reports after which a worker counts as silent: one can be late, two are not.
MISSED_REPORTS = 2
#: Seconds for which a vanished worker is still shown.
SILENT_KEPT_SECONDS = 3_600.0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about itself. Its id is new at each start."""

    worker_id: str
    host: str
    pid: int
    version: str
    #: the analyses that it can run
    analyses: tuple[str, ...]
    slots: int
    busy: int
    #: the interval of its reports
    every_seconds: float
    started_at: Instant
    stopping: bool


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker as the store knows it."""

    report: WorkerReport
    seen_at: Instant
    #: the jobs that it holds, and when the last of their leases ends
    held: int
    held_until: Instant | None

    def quiet_seconds(self, now: Instant) -> float:
        """Return the seconds since its last report."""
        return max(0.0, seconds_between(self.seen_at, now))

    def silent(self, now: Instant) -> bool:
        """Whether it has missed more reports than can be late."""
        return self.quiet_seconds(now) > MISSED_REPORTS * self.report.every_seconds + 1.0

    def works(self, now: Instant) -> bool:
        """Whether it accepts new jobs."""
        return not self.report.stopping and not self.silent(now)


def runnable_analyses(workers: Iterable[WorkerStatus], now: Instant) -> frozenset[str]:
    """Return the analyses that some live worker can run."""
    return frozenset(name for worker in workers if worker.works(now) for name in worker.report.analyses)


SWEEP_DUTY = "sweep"
RETENTION_DUTY = "retention"
DELIVERY_DUTY = "deliveries"
#: only recorded by processes with a mail server
MAIL_DUTY = "mail"
#: A process that sends mail is expected for this many seconds after its last record: it may be restarting.
MAIL_EXPECTED_SECONDS = 300.0


def mail_sender_alive(done: Iterable["DutySuccess"], now: Instant) -> bool:
    """Whether some process with a mail server is running, or was just now."""
    return any(one.name == MAIL_DUTY and seconds_between(one.succeeded_at, now) < MAIL_EXPECTED_SECONDS for one in done)


#: Not a duty, but a write that shows whether the database accepts writes.
WRITE_PROBE = "write probe"


class DutySuccess(msgspec.Struct, frozen=True):
    """The last success of a duty, on any host."""

    name: str
    succeeded_at: Instant
    host: str


#: A message names at most so many analyses.
_MOST_NAMES = 5


class HealthFinding(msgspec.Struct, frozen=True):
    """A violated rule by its name, with the values of its message."""

    level: Severity
    name: str
    values: Mapping[str, Any] = {}


class Health(msgspec.Struct, frozen=True):
    """The violated rules, the most severe first."""

    findings: list[HealthFinding]

    @property
    def level(self) -> Severity:
        """The severity of the most severe finding."""
        return self.findings[0].level if self.findings else Severity.OK


def check_health(
    seen: OpsStatistics,
    workers: Sequence[WorkerStatus],
    *,
    writable: bool = True,
    paused: Collection[str] = (),
) -> Health:
    """Return the violated rules; `writable` is whether the store takes writes, `paused` which analyses are paused."""
    unwell = [] if writable else [HealthFinding(STORE_UNWRITABLE.severity, STORE_UNWRITABLE.name)]
    found = [*unwell, *_worker_findings(seen, workers), *_queue_findings(seen, workers, paused), *_ended_findings(seen)]
    return Health(sorted(found, key=lambda one: one.level is not Severity.BAD))


def _worker_findings(seen: OpsStatistics, workers: Sequence[WorkerStatus]) -> list[HealthFinding]:
    if not any(worker.works(seen.at) for worker in workers):
        return [HealthFinding(NO_WORKER.severity, NO_WORKER.name, {"waiting": seen.total.waiting})]
    silent = [worker for worker in workers if worker.silent(seen.at)]
    held = sum(worker.held for worker in silent)
    if not silent:
        return []
    longest = max(worker.quiet_seconds(seen.at) for worker in silent)
    level = SILENT_WORKER.severity if held else Severity.WARN
    return [HealthFinding(level, SILENT_WORKER.name, {"workers": len(silent), "seconds": longest, "jobs": held})]


def _queue_findings(
    seen: OpsStatistics, workers: Sequence[WorkerStatus], paused: Collection[str]
) -> list[HealthFinding]:
    known = runnable_analyses(workers, seen.at)
    unknown = [one for one in seen.analyses if known and one.waiting and one.name not in known]
    found = []
    if unknown:
        names = ", ".join(one.name for one in unknown[:_MOST_NAMES]) + (" …" if len(unknown) > _MOST_NAMES else "")
        values = {"analyses": names, "waiting": sum(one.waiting for one in unknown)}
        found.append(HealthFinding(UNKNOWN_ANALYSIS.severity, UNKNOWN_ANALYSIS.name, values))
    late = [
        one
        for one in seen.analyses
        if one not in unknown and one.name not in paused and _oldest(one, seen) > LONG_WAIT.threshold
    ]
    if late:
        longest = max(late, key=lambda one: _oldest(one, seen))
        values = {"analysis": longest.name, "seconds": _oldest(longest, seen)}
        found.append(HealthFinding(LONG_WAIT.severity, LONG_WAIT.name, values))
    return found


def _most_frequent_codes(seen: OpsStatistics) -> str:
    """Return the most frequent error code, or all that are equally frequent."""
    return ", ".join(one.code for one in seen.failures if one.count == seen.failures[0].count)


def _oldest(one: JobCounts, seen: OpsStatistics) -> float:
    return 0.0 if one.oldest_at is None else seconds_between(one.oldest_at, seen.at)


def _ended_findings(seen: OpsStatistics) -> list[HealthFinding]:
    found = []
    total = seen.total
    if total.ended >= MIN_ENDED and total.failed > FAILURES.threshold * total.ended:
        values = {"failed": total.failed, "ended": total.ended, "code": _most_frequent_codes(seen)}
        found.append(HealthFinding(FAILURES.severity, FAILURES.name, values))
    if seen.canceling:
        since = seen.canceling[0].cancel_requested_at or seen.at
        values = {"jobs": len(seen.canceling), "seconds": seconds_between(since, seen.at)}
        found.append(HealthFinding(SLOW_CANCEL.severity, SLOW_CANCEL.name, values))
    return found
