"""The statistics of the timing scenario are right; the measurement itself is a command, because it needs quiet."""

import random
from pathlib import Path

import pytest

from tests.abuse.timing import ASKED, Figures, mann_whitney, measure


def test_the_test_tells_samples_apart() -> None:
    """A shift of one spread is seen, the same distribution is not, and two equal samples are not at all."""
    drawn = random.Random(7)
    one = [drawn.gauss(100, 10) for _ in range(500)]
    same = [drawn.gauss(100, 10) for _ in range(500)]
    shifted = [value + 10 for value in same]
    assert mann_whitney(one, same) > 0.01
    assert mann_whitney(one, shifted) < 1e-9
    assert mann_whitney([5.0] * 20, [5.0] * 30) == 1.0


def test_the_test_gives_known_values() -> None:
    """By hand: ranks 1, 2, 4.5 against 3, 4.5, 6 with one tie; U is 1.5, the mean 4.5, the variance 5.1."""
    assert mann_whitney([1, 2, 4], [3, 4, 5]) == pytest.approx(0.26829, abs=1e-5)


def test_small_differences_and_chance_are_allowed() -> None:
    """Either is enough; both together are a finding."""
    assert Figures("x", 1, 100, 104, 100, 0.001).alike
    assert Figures("x", 1, 100, 150, 100, 0.02).alike
    assert not Figures("x", 1, 100, 150, 100, 0.001).alike


def test_the_scenario_runs(tmp_path: Path) -> None:
    """A few pairs of everything, without a judgement: that needs a quiet machine."""
    found = measure(tmp_path, pairs=20)
    assert [one.operation for one in found] == list(ASKED)
    assert all(one.pairs == 20 and one.iqr_us > 0 for one in found)
