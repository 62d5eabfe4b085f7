"""The arithmetic of rates: what passes, what is told, and when it is true."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.domain.access import Rate, RateStatus, read_rate, take_one

RATES = st.builds(Rate, st.integers(1, 200), st.integers(1, 100))
PAUSES = st.lists(st.floats(0, 20), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("text", "rate"), [("20/s", Rate(20, 1)), ("100/1m", Rate(100, 60)), (" 5/24h ", Rate(5, 86_400))]
)
def test_a_rate_is_read(text: str, rate: Rate) -> None:
    """A number and a window with its unit."""
    assert read_rate(text) == rate
    assert read_rate(str(rate)) == rate


@pytest.mark.parametrize("text", ["", "20", "20/", "/s", "0/s", "1/0s", "-1/s", "1.5/s", "1/x", "1/1y", "1e3/s"])
def test_a_malformed_rate_is_refused(text: str) -> None:
    """Never a guess."""
    with pytest.raises(ValueError, match=r"rate|allow"):
        read_rate(text)


@settings(deadline=None)
@given(RATES)
def test_the_quota_may_be_taken_at_once_and_no_more(rate: Rate) -> None:
    """Each tells how many remain; the next one is refused, and told when it is not."""
    full_at = 0.0
    for left in reversed(range(rate.quota)):
        standing = take_one(rate, full_at, 50.0)
        assert (standing.allowed, standing.remaining) == (True, left)
        full_at = standing.full_at
    refused = take_one(rate, full_at, 50.0)
    assert not refused.allowed
    assert refused.full_at == full_at
    assert take_one(rate, full_at, 50.0 + refused.seconds).allowed


@settings(deadline=None)
@given(RATES, PAUSES)
def test_remaining_and_seconds_are_exact(rate: Rate, pauses: list[float]) -> None:
    """What remains passes at once; after the seconds that were told there is more, and at no time too much."""
    now, full_at, passed = 100.0, 0.0, 0
    for pause in pauses:
        now += pause
        standing = take_one(rate, full_at, now)
        passed += standing.allowed
        full_at = standing.full_at
        assert passed <= rate.quota + (now - 100.0) * rate.quota / rate.window + 1e-3
        assert _passing(rate, full_at, now) == standing.remaining
        later = _passing(rate, full_at, now + standing.seconds)
        assert later == rate.quota if standing.remaining else later >= 1


def _passing(rate: Rate, full_at: float, now: float) -> int:
    """How many pass at one moment."""
    count = 0
    while (standing := take_one(rate, full_at, now)).allowed:
        full_at, count = standing.full_at, count + 1
    return count


def test_idle_time_does_not_accumulate() -> None:
    """A day without a request is worth one quota."""
    assert take_one(Rate(3, 60), 0.0, 86_400.0) == RateStatus(True, 2, 20, 86_420.0)
