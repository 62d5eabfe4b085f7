"""A seeded share of every scenario; `make faults` runs all of it."""

from pathlib import Path

import pytest

from tests.faults.plan import Plan
from tests.faults.report import rows_of
from tests.faults.suite import ON_HOSTS, SCENARIOS, run_scenario
from tests.support.tiers import ALL, choose_seed

#: Share of the full scale: `make test` runs a smoke test of a few scenarios.
SCALE = 0.1 if ALL else 0.01
#: Of those on hosts, and of one that starts a process each round.
SLOWER_SCALE = 0.05 if ALL else 0.01
SLOWER = {*ON_HOSTS, "deliveries"}


@pytest.mark.limit(900)  # many processes start one after another: minutes on a busy machine
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_promise_is_kept(name: str, tmp_path: Path) -> None:
    """Nothing is lost and nothing is written twice; how quick it is beside other tests is only printed."""
    seed = choose_seed()
    report = run_scenario(name, Plan(seed, SLOWER_SCALE if name in SLOWER else SCALE, tmp_path))
    for row in rows_of([report]):
        print(" | ".join(row))
    assert [f"{figure.what}: {figure.shown}" for figure in report.broken if not figure.timed] == []


def test_the_harness_sees_a_missing_fence(tmp_path: Path) -> None:
    """On a store that accepts every write, the same pauses show stale writes."""
    plan = Plan(choose_seed(), 0.04, tmp_path, app="tests.faults.unfenced:app")
    broken = [figure.what for figure in run_scenario("stop", plan).broken]
    assert "stale writes accepted" in broken
