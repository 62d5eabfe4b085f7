"""How long a run may still take, as a range: only where its own steps tell it."""

import pytest

from langlauf.domain.eta import ProgressStep, RemainingRange, remaining_range
from langlauf.domain.instant import SECOND, after
from langlauf.ui.language import load_language
from langlauf.ui.pages.job_headline import format_remaining

START = 1_800_000_000 * SECOND


def _steps(*pairs: tuple[float, int]) -> list[ProgressStep]:
    return [ProgressStep(after(START, seconds), percent) for seconds, percent in pairs]


def _even(count: int, seconds: float, percent: int = 5) -> list[ProgressStep]:
    return _steps(*((number * seconds, number * percent) for number in range(1, count + 1)))


def _at(seconds: float) -> int:
    return after(START, seconds)


def test_even_steps_give_a_narrow_range_around_the_truth() -> None:
    """Ten steps of 5 % in 4 s each: half is done, and 40 s are left."""
    found = remaining_range(_even(10, 4.0), _at(40))
    assert found is not None
    assert found.low < 40 < found.high
    assert found.high / found.low < 1.5
    assert found.steps == 9


def test_the_time_since_the_last_step_is_taken_off_and_not_averaged_in() -> None:
    """Later looks between two steps come closer to the end, second by second."""
    now, later = (remaining_range(_even(10, 4.0), _at(at)) for at in (40, 47))
    assert now is not None
    assert later is not None
    assert now.high - later.high == pytest.approx(7)
    assert remaining_range(_even(10, 4.0), _at(40 + 60)) is None, "it should have ended by now"


@pytest.mark.parametrize(
    "steps",
    [
        [],
        _even(5, 4.0),  # four paces
        _even(10, 1.0),  # nine seconds
        _steps((1, 10), (5, 10), (9, 10), (13, 10), (17, 10), (21, 10), (25, 10)),  # it did not get further
    ],
    ids=["none", "few", "short", "standing still"],
)
def test_few_steps_give_no_range(steps: list[ProgressStep]) -> None:
    """At least five steps over at least ten seconds."""
    assert remaining_range(steps, _at(60)) is None


def test_uneven_steps_give_no_range() -> None:
    """A range of more than three times would be a guess."""
    jumps = _steps((0, 1), (1, 20), (2, 40), (30, 41), (31, 60), (90, 61), (91, 62))
    assert remaining_range(jumps, _at(91)) is None


def test_only_the_latest_steps_count() -> None:
    """A run that became slower is told by how slow it is now."""
    quick = [(0.1 * number, number) for number in range(1, 31)]
    slow = [(3.0 + 5.0 * number, 30 + number) for number in range(1, 26)]
    found = remaining_range(_steps(*quick, *slow), _at(3 + 5 * 25))
    assert found is not None
    assert found.low < 45 * 5 < found.high


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.0, 4.0, "less than 10 s left"),
        (21.0, 38.0, "about 20–40 s left"),  # noqa: RUF001
        (80.0, 130.0, "about 1–3 min left"),  # noqa: RUF001
        (30.0, 150.0, "less than 3 min left"),
        (8_000.0, 12_000.0, "about 2–4 h left"),  # noqa: RUF001
    ],
)
def test_a_range_is_rounded_outwards(low: float, high: float, words: str) -> None:
    """In the unit that fits; never narrower than what is known."""
    assert format_remaining(RemainingRange(low, high, 9), load_language("en")) == words
