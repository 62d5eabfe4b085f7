"""Is it well? What is wrong is found by rules with thresholds that have names, the gravest first."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from langlauf.domain.figures import JobCounts, OpsStatistics
from langlauf.domain.instant import seconds_between
from langlauf.domain.workers import WorkerStatus, runnable_analyses

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
