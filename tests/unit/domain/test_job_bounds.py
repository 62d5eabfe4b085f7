"""How much room a log keeps for the end, and what counts as stored."""

import pytest

from langlauf.domain.attempt import LEAST_EVENTS, JobBounds, Partial, WriteResult, utf8_size, write_result


@pytest.mark.parametrize(
    ("events", "last_news"), [(LEAST_EVENTS, 6), (50, 45), (200, 180), (1_000, 900), (5_000, 4_900)]
)
def test_a_log_keeps_room_for_the_end(events: int, last_news: int) -> None:
    """A tenth of it, at least four events and at most a hundred."""
    assert JobBounds(events=events).last_progress_event == last_news


def test_the_defaults_are_those_of_the_contract() -> None:
    """100,000 events and a gibibyte."""
    assert JobBounds() == JobBounds(events=100_000, partial_bytes=1024**3)


def test_only_a_refused_write_is_false() -> None:
    """A write past the bounds is none that an attempt has to stop for."""
    assert not WriteResult.REFUSED
    assert [write_result(None), write_result("partials"), write_result("events")] == [1, 2, 3]
    assert all(one for one in WriteResult if one is not WriteResult.REFUSED)


def test_sizes_are_those_of_utf_8() -> None:
    """And nothing where there is no text."""
    assert utf8_size("ab", None, "ä€😀") == 2 + 2 + 3 + 4
    assert Partial(result_id="r", payload=None, summary="ä", blob_bytes=100).stored_bytes == 102
