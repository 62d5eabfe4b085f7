"""Health of a deployment: reports of workers, successes of periodic duties, and the rules that find problems."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.statistics import JobCounts, OpsStatistics

#: So many reports in a row may be missing before a worker counts as silent: one can be late, two are not.
MISSED_REPORTS = 2
#: A worker that vanished is shown for so long, in seconds.
SILENT_KEPT_SECONDS = 3_600.0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it sees itself. Its id is fresh at each start."""

    worker_id: str
    host: str
    pid: int
    version: str
    #: what it can run
    analyses: tuple[str, ...]
    slots: int
    busy: int
    #: how often it reports
    every_seconds: float
    started_at: Instant
    stopping: bool


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker as the store knows it."""

    report: WorkerReport
    seen_at: Instant
    #: the jobs that are its own until their leases end, and when the last of those does
    held: int
    held_until: Instant | None

    def quiet_seconds(self, now: Instant) -> float:
        """For how long nothing was heard of it."""
        return max(0.0, seconds_between(self.seen_at, now))

    def silent(self, now: Instant) -> bool:
        """Whether it has missed more reports than can be late."""
        return self.quiet_seconds(now) > MISSED_REPORTS * self.report.every_seconds + 1.0

    def works(self, now: Instant) -> bool:
        """Whether it takes new jobs."""
        return not self.report.stopping and not self.silent(now)


def runnable_analyses(workers: Iterable[WorkerStatus], now: Instant) -> frozenset[str]:
    """The analyses that some worker would take a job of."""
    return frozenset(name for worker in workers if worker.works(now) for name in worker.report.analyses)


SWEEP_DUTY = "sweep"
RETENTION_DUTY = "retention"
DELIVERY_DUTY = "deliveries"
#: noted by processes that have a mail server alone
MAIL_DUTY = "mail"
#: A process that sends mail is counted on for so many seconds after its last note: it may be starting again.
MAIL_EXPECTED_SECONDS = 300.0


def mail_sender_alive(done: Iterable["DutySuccess"], now: Instant) -> bool:
    """Whether some process that has a mail server is there, or was a moment ago."""
    return any(one.name == MAIL_DUTY and seconds_between(one.succeeded_at, now) < MAIL_EXPECTED_SECONDS for one in done)


#: No duty, but a write that tells whether a database takes any.
WRITE_PROBE = "write probe"


class DutySuccess(msgspec.Struct, frozen=True):
    """The last success of a duty, on whichever host."""

    name: str
    succeeded_at: Instant
    host: str


#: Stopping takes a moment; after a minute somebody should know.
CANCEL_SECONDS = 60.0
#: A job that waits longer than this, in seconds, is worth a word although nothing else is wrong.
LONG_WAIT_SECONDS = 300.0
#: A share of failures above this is worth a word, once so many have ended that it means something.
FAILED_SHARE = 0.1
FEW_ENDED = 20
#: More names than these are left out of a sentence.
_MOST_NAMES = 5


#: What can be wrong, by name.
FINDINGS = ("store_unwell", "no_worker", "silent", "nobody_knows", "long_wait", "failing", "canceling")


class Severity(StrEnum):
    """How grave something is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class HealthFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong, by a name for its sentence, with what goes into it."""

    level: Severity
    name: str
    values: Mapping[str, Any] = {}


class Health(msgspec.Struct, frozen=True):
    """What is wrong, the gravest first; nothing where all is well."""

    findings: list[HealthFinding]

    @property
    def level(self) -> Severity:
        """As grave as the gravest."""
        return self.findings[0].level if self.findings else Severity.OK


def check_health(seen: OpsStatistics, workers: Sequence[WorkerStatus], *, writable: bool = True) -> Health:
    """Looks at all of it; `writable` is whether the store takes writes."""
    unwell = [] if writable else [HealthFinding(Severity.BAD, "store_unwell")]
    found = [*unwell, *_of_workers(seen, workers), *_of_queues(seen, workers), *_of_ends(seen)]
    return Health(sorted(found, key=lambda one: one.level is not Severity.BAD))


def _of_workers(seen: OpsStatistics, workers: Sequence[WorkerStatus]) -> list[HealthFinding]:
    if not any(worker.works(seen.at) for worker in workers):
        return [HealthFinding(Severity.BAD, "no_worker", {"waiting": seen.total.waiting})]
    silent = [worker for worker in workers if worker.silent(seen.at)]
    held = sum(worker.held for worker in silent)
    if not silent:
        return []
    longest = max(worker.quiet_seconds(seen.at) for worker in silent)
    level = Severity.BAD if held else Severity.WARN
    return [HealthFinding(level, "silent", {"workers": len(silent), "seconds": longest, "jobs": held})]


def _of_queues(seen: OpsStatistics, workers: Sequence[WorkerStatus]) -> list[HealthFinding]:
    known = runnable_analyses(workers, seen.at)
    nobodys = [one for one in seen.analyses if known and one.waiting and one.name not in known]
    found = []
    if nobodys:
        names = ", ".join(one.name for one in nobodys[:_MOST_NAMES]) + (" …" if len(nobodys) > _MOST_NAMES else "")
        values = {"analyses": names, "waiting": sum(one.waiting for one in nobodys)}
        found.append(HealthFinding(Severity.BAD, "nobody_knows", values))
    late = [one for one in seen.analyses if one not in nobodys and _oldest(one, seen) > LONG_WAIT_SECONDS]
    if late:
        longest = max(late, key=lambda one: _oldest(one, seen))
        found.append(
            HealthFinding(Severity.WARN, "long_wait", {"analysis": longest.name, "seconds": _oldest(longest, seen)})
        )
    return found


def _oldest(one: JobCounts, seen: OpsStatistics) -> float:
    return 0.0 if one.oldest_at is None else seconds_between(one.oldest_at, seen.at)


def _of_ends(seen: OpsStatistics) -> list[HealthFinding]:
    found = []
    total = seen.total
    if total.ended >= FEW_ENDED and total.failed > FAILED_SHARE * total.ended:
        code = seen.failures[0].code
        found.append(
            HealthFinding(Severity.WARN, "failing", {"failed": total.failed, "ended": total.ended, "code": code})
        )
    if seen.canceling:
        since = seen.canceling[0].cancel_requested_at or seen.at
        values = {"jobs": len(seen.canceling), "seconds": seconds_between(since, seen.at)}
        found.append(HealthFinding(Severity.WARN, "canceling", values))
    return found
