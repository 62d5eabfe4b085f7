"""The room for large answers: counted by org and in all, once for what is common, and given back."""

from contextlib import ExitStack

import pytest

from langlauf.domain.errors import ResponseMemoryFull
from langlauf.service.request_limits import ResponseMemory


def test_each_org_has_its_part_and_all_have_the_whole() -> None:
    """The org is told that it is its own doing, and not otherwise."""
    room = ResponseMemory(most_of_org=10, most=15)
    with ExitStack() as taken:
        for org, size in (("a", 6), ("a", 4), ("b", 5)):
            taken.enter_context(room.share(org)).take(size)
        for org, scope in (("a", "org"), ("b", "all"), ("c", "all")):
            with room.share(org) as share, pytest.raises(ResponseMemoryFull) as refused:
                share.take(1)
            assert refused.value.scope == scope
        assert room.taken == 15
    assert room.taken == 0
    assert not room.orgs


def test_what_is_common_is_counted_once_and_stays_while_somebody_has_it() -> None:
    """The first who leaves takes nothing from the others."""
    room = ResponseMemory(most_of_org=10, most=10)
    with room.share("a") as first:
        first.take(8, "copy")
        with room.share("a") as second:
            second.take(8, "copy")
            assert room.taken == 8
            first.leave()
            assert room.taken == 8
            with room.share("a") as third, pytest.raises(ResponseMemoryFull):
                third.take(3)
        assert room.taken == 0
        first.take(1)
    assert room.taken == 0
    assert not room.shares


def test_nothing_is_refused_for_its_own_size_alone() -> None:
    """However large, and in as many steps as it takes; another writer waits until it has gone."""
    room = ResponseMemory(most_of_org=10, most=15)
    with room.share("a") as share:
        share.take(1)
        share.take(50, "copy")
        share.take(50)
        assert room.taken == 101
        with room.share("b") as other, pytest.raises(ResponseMemoryFull):
            other.take(1)
    assert room.taken == 0
