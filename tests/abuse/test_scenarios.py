"""A seeded share of every scenario; `make abuse` runs the whole."""

from pathlib import Path

import pytest

from tests.abuse.suite import SCENARIOS
from tests.faults.plan import Plan
from tests.faults.report import rows_of
from tests.faults.suite import run_scenario
from tests.support.tiers import choose_seed

SCALE = 0.1


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_bound_holds(name: str, tmp_path: Path) -> None:
    """Whatever clients do, an ordinary one is served, and nothing is left behind."""
    report = run_scenario(name, Plan(choose_seed(), SCALE, tmp_path), SCENARIOS)
    for row in rows_of([report]):
        print(" | ".join(row))
    assert not report.broken, [f"{figure.what}: {figure.shown}" for figure in report.broken]
