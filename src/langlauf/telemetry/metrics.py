"""Every metric by name: what is counted where it happens, and what is looked up when somebody asks.

A metric is in base units, which its name says. Its labels have few values: an analysis that is not registered here and
a code of an analysis' own are told as `other`, and an org is named only where the operator asked for that.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from langlauf.telemetry.facts import COUNTS, Fact
from langlauf.telemetry.meters import Labels, Level, Meter, Spread, Tally

if TYPE_CHECKING:  # loaded by those that are asked for metrics, not by those that count
    from prometheus_client import CollectorRegistry, Metric

OTHER = "other"
#: What a process counted, by metric.
Counts = dict[str, list[tuple[Labels, list[float]]]]
#: Codes of failed jobs that are Langlauf's own; each analysis may have more.
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
_MOMENTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WHILES = (0.05, 0.25, 1, 2.5, 5, 15, 30, 60, 150, 300, 900, 1_800, 3_600, 14_400, 86_400)
_SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)

# -- the life of a job, as far as this process had a part in it --------------------------------------------------------

SUBMISSIONS = Tally("langlauf_submissions_total", "What became of submissions to this process.", "outcome")
STARTS = Tally("langlauf_attempts_started_total", "Attempts that this process began.", "analysis")
ATTEMPTS = Tally("langlauf_attempts_ended_total", "Attempts of this process, by how they ended.", "analysis", "outcome")
ENDS = Tally("langlauf_jobs_ended_total", "Jobs whose end this process wrote.", "analysis", "status", "code")
SWEPT = Tally("langlauf_jobs_swept_total", "Jobs that a sweep of this process took back from a worker.", "outcome")
ABANDONED = Tally("langlauf_attempts_abandoned_total", "Coroutines that did not stop within the cancel grace.")
DEATHS = Tally("langlauf_process_deaths_total", "Processes that died while they ran a job.")
WAIT = Spread("langlauf_job_wait_seconds", "From accepted to first started.", "analysis", bounds=_WHILES)
RUN = Spread("langlauf_attempt_seconds", "From the start of an attempt to its written end.", "analysis", bounds=_WHILES)
TO_START = Spread(
    "langlauf_claim_to_start_seconds", "From asking for a job to the start of its attempt.", bounds=_MOMENTS
)

# -- requests, store, duties, deliveries, counted by this process ------------------------------------------------------

REQUESTS = Spread(
    "langlauf_http_request_seconds",
    "From the head of a request to the head of its answer.",
    "operation",
    "status",
    bounds=_MOMENTS,
)
BATCH_SIZES = Spread("langlauf_store_batch_operations", "Operations that went together.", "queue", bounds=_SIZES)
BATCHES = Spread("langlauf_store_batch_seconds", "What a batch took; of writes, its commit.", "queue", bounds=_MOMENTS)
REFUSED = Tally("langlauf_store_operations_failed_total", "Operations that the store did not take.", "queue")
DUTIES = Tally("langlauf_duty_runs_total", "Rounds of what is done again and again.", "duty", "outcome")
RETIRED = Tally("langlauf_retention_removed_total", "What retention of this process removed.", "kind")
DELIVERIES = Tally("langlauf_delivery_attempts_total", "Tries of this process to deliver.", "channel", "outcome")
FACTS = Tally("langlauf_facts_total", "What this process told in its log, by name.", "fact")

# -- looked up: of the whole deployment, from the store ----------------------------------------------------------------

STORE_UP = Level("langlauf_store_up", "Whether the store answered just now.")
WAITING = Level("langlauf_jobs_waiting", "Jobs that wait for their first attempt.", "analysis")
RUNNING = Level("langlauf_jobs_running", "Jobs that a live worker holds.", "analysis")
RETRYING = Level("langlauf_jobs_waiting_for_retry", "Jobs that have started and wait for their next attempt.")
OLDEST_WAITING = Level("langlauf_oldest_waiting_seconds", "For how long the oldest waiting job has waited.")
OLDEST_ATTEMPT = Level("langlauf_oldest_attempt_seconds", "For how long the oldest running attempt has run.")
OVERDUE = Level("langlauf_leases_overdue", "Leases that have ended and that no sweep has taken yet.")
ORG_WAITING = Level("langlauf_org_jobs_waiting", "Jobs of an org that wait for their first attempt.", "org")
ORG_RUNNING = Level("langlauf_org_jobs_running", "Jobs of an org that a live worker holds.", "org")
WORKERS = Level("langlauf_workers", "Workers that report, or did until an hour ago.", "state")
SLOTS = Level("langlauf_worker_slots", "Jobs that the workers could run at once, without the limit over all.")
BUSY = Level("langlauf_worker_slots_busy", "Slots of workers that are taken, as they reported it.")
PENDING = Level("langlauf_deliveries_pending", "Messages that are to be delivered.", "channel")
OLDEST_DUE = Level("langlauf_delivery_oldest_due_seconds", "For how long the oldest delivery has been due.")
ENDPOINTS = Level("langlauf_endpoints", "Endpoints that get nothing right now.", "state")

# -- looked up: of this process ----------------------------------------------------------------------------------------

BUILD = Level("langlauf_build_info", "Always 1; the labels say what runs.", "version", "store")
RUNNING_LIMIT = Level("langlauf_jobs_running_limit", "How many jobs may run at once over the whole deployment.")
DUTY_AGE = Level("langlauf_duty_success_age_seconds", "Since a duty of this process last ended well.", "duty")
DUTY_EVERY = Level("langlauf_duty_interval_seconds", "How often a duty is done.", "duty")
STREAMS = Level("langlauf_streams_open", "Event streams that are open in this process.")
POLLS = Level("langlauf_polls_open", "Long polls that wait in this process.")
WAITS = Level("langlauf_waits_open", "Synchronous requests and those with `Prefer: wait` that wait in this process.")
QUEUED = Level("langlauf_store_operations_waiting", "Operations that wait for the next batch.", "queue")
FILE_BYTES = Level("langlauf_store_file_bytes", "The size of the SQLite file.")
LOG_BYTES = Level("langlauf_store_log_bytes", "The size of SQLite's write-ahead log.")
CONNECTIONS = Level("langlauf_store_connections", "Connections of this process to PostgreSQL.", "state")

METERS: tuple[Meter, ...] = tuple(one for one in list(globals().values()) if isinstance(one, Meter))
LEVELS: tuple[Level, ...] = tuple(one for one in METERS if isinstance(one, Level))
_COUNTERS: dict[str, Tally | Spread] = {one.name: one for one in METERS if isinstance(one, Tally | Spread)}

_SUBMISSION_OUTCOMES = (
    "accepted",
    "duplicate",
    "idempotency_mismatch",
    "invalid",
    "overloaded",
    "queue_full",
    "replayed",
    "unavailable",
)
#: `retry` where it is tried again; else how the message is settled.
_DELIVERY_OUTCOMES = ("sent", "retry", "failed", "suppressed")
_ATTEMPT_OUTCOMES = ("completed", "failed", "retry", "canceled", "released", "crashed", "lost")
_analyses: set[str] = set()


def know_analyses(names: Iterable[str]) -> None:
    """Tells which analyses have a label of their own: those that an application of this process registered."""
    for name in names:
        _analyses.add(name)
        STARTS.expect(name)
        ENDS.expect(name, "completed", "")
        ENDS.expect(name, "canceled", "")
        for code in sorted({*CODES, OTHER}):
            ENDS.expect(name, "failed", code)
        for outcome in _ATTEMPT_OUTCOMES:
            ATTEMPTS.expect(name, outcome)


def known_analyses() -> list[str]:
    """Those that have a label of their own."""
    return sorted(_analyses)


def analysis_label(name: str) -> str:
    """The name of an analysis, where it is one of ours."""
    return name if name in _analyses else OTHER


def code_label(code: str | None) -> str:
    """The code of a failure, where it is one of ours; nothing where there is none."""
    return "" if code is None else code if code in CODES else OTHER


def count_end(analysis: str, status: str, code: str | None) -> None:
    """A job has ended, and this process wrote it."""
    ENDS.add(analysis_label(analysis), status, code_label(code))


def count_delivery(channel: str, status: str) -> None:
    """A try to deliver has ended; a message that is pending is tried again."""
    DELIVERIES.add(channel, "retry" if status == "pending" else status)


def take_counts() -> Counts:
    """What this process counted since this was last asked, for the program that it works for."""
    _put_facts()
    return {name: taken for name, one in _COUNTERS.items() if (taken := one.take())}


def add_counts(counts: Counts) -> None:
    """Adds what a worker process counted to what this one did."""
    for name, rows in counts.items():
        for values, counted in rows:
            if name == FACTS.name:
                COUNTS[Fact(values[0])] += int(counted[0])
            else:
                _COUNTERS[name].give(values, counted)


def _put_facts() -> None:
    """Takes over what was told; nothing else is added to facts."""
    for fact in Fact:
        FACTS.put(COUNTS[fact], fact)


class Counted:
    """What this process and its worker processes counted since they started, for the registry."""

    def collect(self) -> "Iterable[Metric]":
        """Every counter and every histogram."""
        _put_facts()
        return [one.family() for one in _COUNTERS.values()]


@cache
def counted() -> "CollectorRegistry":
    """What was counted, and this process. The library's own registry belongs to the application around this one."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Counted())
    ProcessCollector(registry=registry)
    return registry


for _outcome in _SUBMISSION_OUTCOMES:
    SUBMISSIONS.expect(_outcome)
for _outcome in ("lost", "retry", "failed", "canceled"):
    SWEPT.expect(_outcome)
for _channel in ("webhook", "email"):
    for _outcome in _DELIVERY_OUTCOMES:
        DELIVERIES.expect(_channel, _outcome)
for _kind in ("results", "events", "jobs"):
    RETIRED.expect(_kind)


class Scrape:
    """All metrics at one moment: what was counted, and the levels that were looked up."""

    def __init__(self, levels: "Sequence[Metric]") -> None:
        self._levels = levels

    def collect(self) -> "Iterable[Metric]":
        """First what is so now, then what was counted."""
        yield from self._levels
        yield from counted().collect()
