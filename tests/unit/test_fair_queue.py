"""Who goes first is the oldest of the holder that has the most."""

from hypothesis import given
from hypothesis import strategies as st

from langlauf.service.request_limits import FairQueue


def test_the_holder_with_the_most_gives_first() -> None:
    """Until it has no more than others; one that moves is the youngest of its new holder."""
    queue: FairQueue[int] = FairQueue()
    for number, holder in enumerate("abbabb"):
        queue.add(number, holder)
    assert queue.pop(at_least=5) is None
    assert [queue.pop(), queue.pop()] == [1, 2]
    queue.add(4, "a")
    assert [queue.pop() for _ in range(2)] == [0, 3]
    assert {queue.pop(), queue.pop()} == {4, 5}
    assert queue.pop() is None


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "pop"]), st.integers(0, 5), st.sampled_from("abc"))))
def test_it_is_as_a_plain_list_would_be(steps: list[tuple[str, int, str]]) -> None:
    """Whatever comes and goes, in any order."""
    queue: FairQueue[int] = FairQueue()
    plain: list[tuple[int, str]] = []
    for what, number, holder in steps:
        if what == "pop":
            popped = queue.pop()
            sizes = {name: sum(other == name for _, other in plain) for _, name in plain}
            first = {name: next(one for one, other in plain if other == name) for name in sizes}
            largest = [first[name] for name in sizes if sizes[name] == max(sizes.values())]
            assert (popped in largest) if plain else popped is None
            plain = [entry for entry in plain if entry[0] != popped]
            continue
        plain = [entry for entry in plain if entry[0] != number]
        if what == "add":
            queue.add(number, holder)
            plain.append((number, holder))
        elif what == "discard":
            queue.discard(number)
        assert len(queue) == len(plain)
        assert all(one in queue for one, _ in plain)
