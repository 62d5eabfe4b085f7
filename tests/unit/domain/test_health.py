"""Health: each rule holds at its threshold and breaks just beyond it."""

from typing import Any

from langlauf.domain.health import (
    LONG_WAIT,
    MIN_ENDED,
    OPS_RULES,
    Severity,
    WorkerReport,
    WorkerStatus,
    check_health,
)
from langlauf.domain.instant import after
from langlauf.domain.read_models import Overview, WaitingJobs
from langlauf.domain.statistics import OpsStatistics
from tests.unit.domain.test_statistics import NOW, ended, look, made, underway


def worker(quiet: float = 0.0, *, held: int = 0, **changes: Any) -> WorkerStatus:
    """A worker of which nothing was heard for so long."""
    values: dict[str, Any] = {
        "worker_id": "w",
        "host": "host",
        "pid": 1,
        "version": "1",
        "analyses": ("survey",),
        "slots": 8,
        "busy": 0,
        "every_seconds": 5.0,
        "started_at": NOW,
        "stopping": False,
    }
    return WorkerStatus(
        WorkerReport(**{**values, **changes}), after(NOW, -quiet), held, after(NOW, 5) if held else None
    )


def found(seen: Overview | OpsStatistics, *workers: WorkerStatus) -> list[tuple[str, Severity]]:
    """What is wrong, by name."""
    shown = made(seen) if isinstance(seen, Overview) else seen
    result = check_health(shown, workers or [worker()])
    assert {one.name for one in result.findings} <= {rule.name for rule in OPS_RULES}
    assert result.level == (result.findings[0].level if result.findings else Severity.OK)
    return [(one.name, one.level) for one in result.findings]


def waiting(seconds: float, analysis: str = "survey") -> Overview:
    """One job that waits for so long."""
    return look(queues=[WaitingJobs("org-a", analysis, 1, after(NOW, -seconds))])


def test_nothing_wrong_is_healthy() -> None:
    """Also where nothing happens at all."""
    assert found(look()) == []
    assert found(look(ended(1), underway=[underway(3)])) == []


def test_a_store_that_takes_no_writes_comes_first() -> None:
    """Whatever else is wrong follows from it, or can wait."""
    result = check_health(made(waiting(999, "route")), [worker()], writable=False)
    first, *others = result.findings
    assert (first.name, first.level, len(others)) == ("store_unwritable", Severity.BAD, 1)


def test_a_deployment_without_live_workers_is_critical() -> None:
    """A worker that stops or is silent takes nothing; a silent one is graver where it holds jobs."""
    alone = [("no_worker", Severity.BAD)]
    assert found(look(), worker(stopping=True)) == alone
    assert found(look(), worker(11.1)) == alone
    assert found(look(), worker(11.0)) == []
    assert found(look(), worker(), worker(60)) == [("silent_worker", Severity.WARN)]
    assert found(look(), worker(), worker(60, held=2)) == [("silent_worker", Severity.BAD)]


def test_waiting_jobs_need_a_worker_that_knows_their_analysis() -> None:
    """However short it waits; a long wait besides is not said twice."""
    assert found(waiting(1, "route")) == [("unknown_analysis", Severity.BAD)]
    assert found(waiting(999, "route")) == [("unknown_analysis", Severity.BAD)]
    assert found(waiting(1, "route"), worker(), worker(analyses=("route",))) == []


def test_a_long_wait_is_a_warning() -> None:
    """Beyond its threshold."""
    assert found(waiting(LONG_WAIT.threshold)) == []
    assert found(waiting(LONG_WAIT.threshold + 0.1)) == [("long_wait", Severity.WARN)]


def test_many_failures_are_a_warning() -> None:
    """More than one in ten, once there are enough to tell."""
    bad = [ended(number, status="failed") for number in range(3)]
    good = [ended(number) for number in range(MIN_ENDED)]
    assert found(look(*bad[:2], *good[: MIN_ENDED - 2])) == []
    assert found(look(*bad, *good[: MIN_ENDED - 3])) == [("failures", Severity.WARN)]
    assert found(look(*bad, *good[: MIN_ENDED - 4])) == []


def test_codes_that_are_equally_frequent_are_all_named() -> None:
    """None of them is called the most frequent one."""
    codes = ("internal", "timeout", "internal", "timeout", "network_error")
    bad = [ended(number, status="failed", error_code=code) for number, code in enumerate(codes)]
    health = check_health(made(look(*bad, *(ended(number) for number in range(MIN_ENDED)))), [worker()])
    assert sorted(str(health.findings[0].values["code"]).split(", ")) == ["internal", "timeout"]


def test_the_most_severe_finding_comes_first() -> None:
    """Whatever the order of the rules."""
    stuck = underway(900, cancel_requested_at=after(NOW, -90))
    late = WaitingJobs("org-a", "survey", 1, after(NOW, -999))
    seen = look(underway=[stuck], queues=[late, WaitingJobs("org-a", "route", 1, NOW)])
    names = [("unknown_analysis", Severity.BAD), ("long_wait", Severity.WARN), ("slow_cancel", Severity.WARN)]
    assert found(seen) == names
