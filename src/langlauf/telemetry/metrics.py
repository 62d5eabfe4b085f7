"""Every metric by name: counters and histograms of this process, and gauges that are read at each scrape.

Units are base units and part of the name. Labels have few values: an analysis that is not registered here and an
analysis' own error code are `other`, and orgs are labels only with `LANGLAUF_METRICS_ORGS`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from langlauf.telemetry.instruments import Counter, Gauge, Histogram, Instrument, Labels
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent

if TYPE_CHECKING:  # loaded at the first scrape, not by processes that only count
    from prometheus_client import CollectorRegistry, Metric

OTHER = "other"
#: What a process counted since its last report, by metric.
Counts = dict[str, list[tuple[Labels, list[float]]]]
#: Error codes of Langlauf itself; an analysis may have codes of its own.
CODES = frozenset(
    {
        "internal",
        "network_error",
        "result_too_large",
        "result_unstorable",
        "timeout",
        "timeout_max_retries",
        "validation_error",
        "worker_lost",
    }
)
_SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_LONG_SECONDS = (0.05, 0.25, 1, 2.5, 5, 15, 30, 60, 150, 300, 900, 1_800, 3_600, 14_400, 86_400)
_SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)

# -- jobs and attempts of this process ---------------------------------------------------------------------------------

SUBMISSIONS = Counter("langlauf_submissions_total", "Submissions to this process, by outcome.", "outcome")
STARTS = Counter("langlauf_attempts_started_total", "Attempts that this process started.", "analysis")
ATTEMPTS = Counter(
    "langlauf_attempts_ended_total", "Attempts of this process that ended, by outcome.", "analysis", "outcome"
)
ENDS = Counter("langlauf_jobs_ended_total", "Jobs that this process ended.", "analysis", "status", "code")
SCHEDULE_RUNS = Counter(
    "langlauf_schedule_runs_total", "Due schedules that this process handled, by what became of them.", "outcome"
)
SCHEDULE_DELAY = Histogram(
    "langlauf_schedule_delay_seconds", "Time from a planned run to its job.", bounds=_SHORT_SECONDS
)
SWEPT = Counter("langlauf_jobs_swept_total", "Jobs that a sweep of this process reclaimed from a worker.", "outcome")
ABANDONED = Counter("langlauf_attempts_abandoned_total", "Coroutines that did not stop within the cancel grace.")
DEATHS = Counter("langlauf_process_deaths_total", "Worker processes that died while running a job.")
WAIT = Histogram(
    "langlauf_job_wait_seconds", "Time from acceptance to the first attempt.", "analysis", bounds=_LONG_SECONDS
)
RUN = Histogram(
    "langlauf_attempt_seconds",
    "Time from the start of an attempt to its recorded end.",
    "analysis",
    bounds=_LONG_SECONDS,
)
TO_START = Histogram(
    "langlauf_claim_to_start_seconds", "Time from the claim request to the start of the attempt.", bounds=_SHORT_SECONDS
)

# -- requests, store, periodic tasks, deliveries of this process -------------------------------------------------------

REQUESTS = Histogram(
    "langlauf_http_request_seconds",
    "Time from request headers to response headers.",
    "operation",
    "status",
    bounds=_SHORT_SECONDS,
)
BATCH_SIZES = Histogram("langlauf_store_batch_operations", "Operations per batch.", "queue", bounds=_SIZES)
BATCHES = Histogram(
    "langlauf_store_batch_seconds", "Time per batch; for writes including the commit.", "queue", bounds=_SHORT_SECONDS
)
REFUSED = Counter("langlauf_store_operations_failed_total", "Operations that the store rejected.", "queue")
DUTIES = Counter("langlauf_duty_runs_total", "Runs of periodic tasks.", "duty", "outcome")
RETIRED = Counter("langlauf_retention_removed_total", "Records that retention in this process removed.", "kind")
DELIVERIES = Counter("langlauf_delivery_attempts_total", "Delivery attempts of this process.", "channel", "outcome")
LOG_EVENTS = Counter("langlauf_log_events_total", "Log lines of this process, by event name.", "event")

# -- gauges of the whole deployment, from the store --------------------------------------------------------------------

STORE_UP = Gauge("langlauf_store_up", "Whether the store answered this scrape.")
WAITING = Gauge("langlauf_jobs_waiting", "Jobs waiting for their first attempt.", "analysis")
SCHEDULED = Gauge("langlauf_jobs_scheduled", "Jobs waiting for the time at which they may start.", "analysis")
RUNNING = Gauge("langlauf_jobs_running", "Jobs with a live lease.", "analysis")
PAUSED = Gauge("langlauf_analyses_paused", "Pauses that hold, for one org or for all.", "analysis")
RETRYING = Gauge("langlauf_jobs_waiting_for_retry", "Started jobs waiting for their next attempt.")
OLDEST_WAITING = Gauge("langlauf_oldest_waiting_seconds", "Age of the oldest waiting job.")
OLDEST_ATTEMPT = Gauge("langlauf_oldest_attempt_seconds", "Age of the oldest running attempt.")
OVERDUE = Gauge("langlauf_leases_overdue", "Expired leases that no sweep has reclaimed yet.")
ORG_WAITING = Gauge("langlauf_org_jobs_waiting", "Jobs of an org waiting for their first attempt.", "org")
ORG_RUNNING = Gauge("langlauf_org_jobs_running", "Jobs of an org with a live lease.", "org")
WORKERS = Gauge("langlauf_workers", "Workers seen within the last hour.", "state")
SLOTS = Gauge("langlauf_worker_slots", "Slots of all live workers, before the deployment-wide limit.")
BUSY = Gauge("langlauf_worker_slots_busy", "Busy slots, as reported by the workers.")
PENDING = Gauge("langlauf_deliveries_pending", "Messages waiting for delivery.", "channel")
OLDEST_DUE = Gauge("langlauf_delivery_oldest_due_seconds", "Time that the oldest delivery is overdue.")
ENDPOINTS = Gauge("langlauf_endpoints", "Paused and disabled endpoints.", "state")

# -- gauges of this process --------------------------------------------------------------------------------------------

BUILD = Gauge("langlauf_build_info", "Always 1; version and store are labels.", "version", "store")
RUNNING_LIMIT = Gauge("langlauf_jobs_running_limit", "Limit of running jobs over the whole deployment.")
DUTY_AGE = Gauge(
    "langlauf_duty_success_age_seconds",
    "Time since the last successful run of a periodic task.",
    "duty",
)
DUTY_EVERY = Gauge("langlauf_duty_interval_seconds", "Interval of a periodic task.", "duty")
STREAMS = Gauge("langlauf_streams_open", "Open event streams of this process.")
POLLS = Gauge("langlauf_polls_open", "Waiting long polls of this process.")
WAITS = Gauge("langlauf_waits_open", "Waiting requests of this process: synchronous, or with `Prefer: wait`.")
QUEUED = Gauge("langlauf_store_operations_waiting", "Operations waiting for the next batch.", "queue")
FILE_BYTES = Gauge("langlauf_store_file_bytes", "Size of the SQLite file.")
LOG_BYTES = Gauge("langlauf_store_log_bytes", "Size of the write-ahead log of SQLite.")
CONNECTIONS = Gauge("langlauf_store_connections", "Connections of this process to PostgreSQL.", "state")

INSTRUMENTS: tuple[Instrument, ...] = tuple(one for one in list(globals().values()) if isinstance(one, Instrument))
GAUGES: tuple[Gauge, ...] = tuple(one for one in INSTRUMENTS if isinstance(one, Gauge))
_COUNTERS: dict[str, Counter | Histogram] = {
    one.name: one for one in INSTRUMENTS if isinstance(one, Counter | Histogram)
}

_SUBMISSION_OUTCOMES = (
    "accepted",
    "duplicate",
    "idempotency_mismatch",
    "invalid",
    "overloaded",
    "queue_full",
    "replayed",
    "reused",
    "unavailable",
)
#: `retry`: another attempt follows; otherwise the final status of the message.
_DELIVERY_OUTCOMES = ("sent", "retry", "failed", "suppressed")
_ATTEMPT_OUTCOMES = ("completed", "failed", "retry", "canceled", "released", "crashed", "lost")
_analyses: set[str] = set()


def register_analyses(names: Iterable[str]) -> None:
    """Give these analyses labels of their own; all others are `other`."""
    for name in names:
        _analyses.add(name)
        STARTS.initialize(name)
        ENDS.initialize(name, "completed", "")
        ENDS.initialize(name, "canceled", "")
        for code in sorted({*CODES, OTHER}):
            ENDS.initialize(name, "failed", code)
        for outcome in _ATTEMPT_OUTCOMES:
            ATTEMPTS.initialize(name, outcome)


def known_analyses() -> list[str]:
    """Return the analyses with a label of their own."""
    return sorted(_analyses)


def analysis_label(name: str) -> str:
    """Return the label of an analysis: its name if registered, else `other`."""
    return name if name in _analyses else OTHER


def code_label(code: str | None) -> str:
    """Return the label of an error code: the code if it is Langlauf's own, `other`, or empty without one."""
    return "" if code is None else code if code in CODES else OTHER


def count_end(analysis: str, status: str, code: str | None) -> None:
    """Count a job that this process ended."""
    ENDS.add(analysis_label(analysis), status, code_label(code))


def count_delivery(channel: str, status: str) -> None:
    """Count a delivery attempt; `pending` means that another attempt follows."""
    DELIVERIES.add(channel, "retry" if status == "pending" else status)


def take_counts() -> Counts:
    """Return what this process counted since the previous call, for its parent process."""
    _copy_event_counts()
    return {name: taken for name, one in _COUNTERS.items() if (taken := one.take_delta())}


def add_counts(counts: Counts) -> None:
    """Add the counts of a worker process to those of this one."""
    for name, rows in counts.items():
        for values, delta in rows:
            if name == LOG_EVENTS.name:
                EVENT_COUNTS[LogEvent(values[0])] += int(delta[0])
            else:
                _COUNTERS[name].merge(values, delta)


def _copy_event_counts() -> None:
    """Copy the counts of the log, which are kept in `EVENT_COUNTS`."""
    for event in LogEvent:
        LOG_EVENTS.set(EVENT_COUNTS[event], event)


class ProcessMetrics:
    """Collector of the counters and histograms of this process and its worker processes."""

    def collect(self) -> "Iterable[Metric]":
        """Return every counter and every histogram."""
        _copy_event_counts()
        return [one.family() for one in _COUNTERS.values()]


@cache
def process_registry() -> "CollectorRegistry":
    """Return the registry of this process. The default registry belongs to the application around this one."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProcessMetrics())
    ProcessCollector(registry=registry)
    return registry


for _outcome in _SUBMISSION_OUTCOMES:
    SUBMISSIONS.initialize(_outcome)
for _outcome in ("lost", "retry", "failed", "canceled"):
    SWEPT.initialize(_outcome)
for _outcome in ("submitted", "skipped", "missed", "invalid", "queue_full"):
    SCHEDULE_RUNS.initialize(_outcome)
for _channel in ("webhook", "email"):
    for _outcome in _DELIVERY_OUTCOMES:
        DELIVERIES.initialize(_channel, _outcome)
for _kind in ("results", "events", "jobs"):
    RETIRED.initialize(_kind)


class Scrape:
    """Collector of all metrics at one moment: the gauges that were read, and unless left out what was counted."""

    def __init__(self, gauges: "Sequence[Metric]", *, counts: bool = True) -> None:
        self._gauges = gauges
        self._counts = counts

    def collect(self) -> "Iterable[Metric]":
        """Return the gauges, then the counters and histograms."""
        yield from self._gauges
        if self._counts:
            yield from process_registry().collect()


def render(scrape: Scrape, *, openmetrics: bool) -> bytes:
    """Return metrics as text, in the format OpenMetrics or in that of Prometheus."""
    from prometheus_client import generate_latest
    from prometheus_client.openmetrics import exposition

    return exposition.generate_latest(scrape) if openmetrics else generate_latest(scrape)  # type: ignore[no-untyped-call]
