"""The table of health rules: `langlauf doctor`, the page /ops, /ready and the alerts of deploy/prometheus read it.

A rule that more than one of them checks has its threshold, severity, message and remedy here. A test compares the
alerts, which are YAML, and the English texts of /ops with it. Why a store takes no writes is in `store/health.py`.
"""

import math
from enum import StrEnum

import msgspec

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
