"""Where rates and slots are counted, in one process and over several."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from langlauf.auth.rates import LimitMemory, LocalMemory, RateKind, RateLimits, SharedMemory, make_shared_memory
from langlauf.domain.access import Rate
from langlauf.domain.errors import NoStreamSlot
from langlauf.service.request_limits import StreamSlots


class Pair(NamedTuple):
    """Two processes, as they see the memory they share."""

    first: SharedMemory
    second: SharedMemory


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Memory for two processes, mapped twice."""
    descriptor = make_shared_memory(2)
    try:
        yield Pair(SharedMemory(descriptor, 0, 2), SharedMemory(descriptor, 1, 2))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("shared", [False, True])
def test_counts_and_rates_are_kept_by_name(pair: Pair, shared: bool) -> None:
    """Both memories answer alike; a count that falls to zero leaves nothing."""
    memory: LimitMemory = pair.first if shared else LocalMemory()
    assert (memory.full_at(("default", "acme")), memory.count(("slot", "acme"))) == (0.0, 0)
    memory.remember(("default", "acme"), 12.5)
    assert [memory.add(("slot", "acme"), number) for number in (1, 1, -1)] == [1, 2, 1]
    assert memory.full_at(("default", "acme")) == 12.5
    assert memory.full_at(("default", "acm", "e")) == 0.0
    assert (memory.add(("slot", "acme"), -1), memory.count(("slot", "acme"))) == (0, 0)


def test_processes_share_rates(pair: Pair) -> None:
    """What one process grants is missing in the other."""
    one, other = (RateLimits({RateKind.DEFAULT: Rate(3, 60)}, now=lambda: 1.0, memory=memory) for memory in pair)
    quotas = [rates.take(RateKind.DEFAULT, "acme") for rates in (one, other, one, other)]
    assert [quota.standing.allowed for quota in quotas if quota] == [True, True, True, False]


def test_processes_share_slots(pair: Pair) -> None:
    """A limit holds over all processes, and the slots of one that is gone are free again."""
    one, other = (StreamSlots(most_of_org=2, most=3, memory=memory) for memory in pair)
    with one.take(("acme",), "stream"):
        held = one.take(("acme",), "poll")
        with pytest.raises(NoStreamSlot) as refused, other.take(("acme",), "stream"):
            pass
        assert refused.value.scope == "org"
        with (
            other.take(("globex",), "stream"),
            pytest.raises(NoStreamSlot) as refused,
            one.take(("initech",), "stream"),
        ):
            pass
        assert refused.value.scope == "all"
        assert (other.taken("stream"), other.taken("poll")) == (1, 1)
        pair.second.forget(0)
        assert (other.taken("stream"), other.taken("poll")) == (0, 0)
    held.__exit__()
    assert pair.second.count(("slot-level",)) == 0


def test_many_names_make_shared_memory_forget_full_quotas_first(pair: Pair) -> None:
    """A flood of names does not push out a caller whose quota is spent."""
    pair.first.remember(("default", "spent"), 1e9)
    for number in range(200_000):
        pair.second.remember(("default", f"flood-{number}"), float(number))
    assert pair.first.full_at(("default", "spent")) == 1e9


def test_more_names_than_places_leave_no_count_behind(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """All names have the same places, and end in the order in which they came."""
    monkeypatch.setattr(SharedMemory, "_hash", lambda _, name: (int(name[1]) + 1) << 32)
    names = [("slot", str(number)) for number in range(20)]
    assert [pair.first.add(name, 1) for name in names] == [1] * 16 + [0] * 4
    assert [pair.first.add(name, -1) for name in names] == [0] * 20
    assert [pair.second.count(name) for name in names] == [0] * 20
