"""Estimates of a run: its own pace, the runs before it, and honesty where neither says much."""

from hypothesis import given
from hypothesis import strategies as st

from langlauf.domain.eta import RunProgress, full_run_seconds, remaining_seconds, retry_after_seconds
from langlauf.domain.instant import SECOND, Instant, after

START: Instant = 1_770_000_000 * SECOND


def _run(*, percent: int = 0, at: float = 0, from_percent: int = 0, from_at: float | None = 0) -> RunProgress:
    """A run that started at START, got to a percent after so many seconds, and is measured from a point."""
    paced_at = None if from_at is None else after(START, from_at)
    progress_at = None if from_at is None else after(START, at)
    return RunProgress("org-a", "survey", START, percent, from_percent, paced_at, progress_at)


def _left(run: RunProgress, seconds: float, typical: float | None = None) -> float | None:
    return remaining_seconds(run, after(START, seconds), typical)


def test_without_data_there_is_no_estimate() -> None:
    """No progress and no run before it: null."""
    assert _left(_run(), 100) is None


def test_the_own_pace_counts_once_there_is_enough_of_it() -> None:
    """Half of it in 30 seconds: 30 more, whatever others took; and less with every second."""
    half = _run(percent=50, at=30)
    assert _left(half, 30) == 30.0
    assert _left(half, 30, typical=600.0) == 30.0
    assert _left(half, 40, typical=600.0) == 20.0


def test_a_little_progress_counts_a_little() -> None:
    """Five percent within a second and a half say little about a run that usually takes ten minutes."""
    early = _left(_run(percent=5, at=1.5), 1.5, typical=600.0)
    assert early is not None
    assert 400 < early < 600
    assert _left(_run(percent=5, at=1.5), 1.5) == 28.5


def test_progress_right_after_the_start_is_not_extrapolated() -> None:
    """A jump to 60 % in the first instants tells nothing: recent runs do, or else the whole time since the start."""
    jumped = _run(percent=60, at=0.02)
    assert _left(jumped, 3) == 2.0
    assert _left(jumped, 1, typical=100.0) == 99.0


def test_without_progress_recent_runs_are_the_estimate() -> None:
    """What they took, less what has passed."""
    assert _left(_run(), 0, typical=40.0) == 40.0
    assert _left(_run(), 30, typical=40.0) == 10.0


def test_progress_from_checkpoints_is_not_extrapolated() -> None:
    """A resumed job is at 60 % at once: 40 % of a usual run are left, and then its own pace counts."""
    resumed = _run(percent=60, at=1, from_percent=60, from_at=1)
    assert _left(resumed, 1) is None
    assert _left(resumed, 1, typical=100.0) == 40.0
    assert _left(_run(percent=80, at=41, from_percent=60, from_at=1), 41, typical=100.0) == 40.0


def test_a_further_attempt_that_is_not_beyond_the_last_one_is_taken_for_a_whole_run() -> None:
    """It may have begun from nothing; progress of the attempt before says nothing about its pace."""
    again = _run(percent=60, from_percent=60, from_at=None)
    assert _left(again, 10) is None
    assert _left(again, 10, typical=100.0) == 90.0


def test_a_run_that_outlasts_the_usual_time_is_not_said_to_be_done() -> None:
    """A tenth of the time since its last progress, which grows; never nothing."""
    assert _left(_run(), 40, typical=40.0) == 4.0
    assert _left(_run(), 400, typical=40.0) == 40.0
    assert _left(_run(percent=90, at=90), 190) == 10.0


@given(
    st.integers(0, 99),
    st.integers(0, 99),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.none() | st.floats(0.001, 1e6),
    st.booleans(),
)
def test_estimates_are_never_negative_and_null_only_where_nothing_is_known(
    percent: int, start: int, at: float, more: float, typical: float | None, known: bool
) -> None:
    """Whatever a run reports and whatever the clock does."""
    run = _run(percent=max(percent, start), at=at, from_percent=start, from_at=0 if known else None)
    left = _left(run, at + more - 1, typical)
    assert left is None or left >= 0
    if typical is not None:
        assert left is not None


def test_runs_that_skipped_something_count_as_whole_ones() -> None:
    """What resumed work took is brought up to a whole run; less than half of one tells too little."""
    assert full_run_seconds(0, START, after(START, 30)) == 30.0
    assert full_run_seconds(40, START, after(START, 30)) == 50.0
    assert full_run_seconds(60, START, after(START, 30)) is None
    assert full_run_seconds(60, None, after(START, 30)) is None


@given(st.none() | st.floats(0, 1e9))
def test_retry_after_is_whole_seconds_within_limits(until_room: float | None) -> None:
    """From 1 to 300, and 10 where nothing is known."""
    seconds = retry_after_seconds(until_room)
    assert 1 <= seconds <= 300
    if until_room is None:
        assert seconds == 10
    elif until_room <= 300:
        assert seconds >= until_room
