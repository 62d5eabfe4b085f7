"""Whose items go first where several wait."""

import pytest

from langlauf.domain.fairness import take_in_turns


@pytest.mark.parametrize(
    ("items", "most", "most_of_one", "taken"),
    [
        ("aaaa", 9, 2, "aaaa"),
        ("aaaa", 3, 2, "aaa"),
        ("aaaab", 9, 2, "aab"),
        ("aaabbb", 4, 3, "aabb"),
        ("aaa..b", 9, 1, "a..b"),
        ("", 9, 2, ""),
    ],
)
def test_holders_take_turns(items: str, most: int, most_of_one: int, taken: str) -> None:
    """One alone may take all there is room for; beside others it has its part, and what has no holder goes along."""
    first, left = take_in_turns(items, lambda item: item.strip("."), most=most, most_of_one=most_of_one)
    assert "".join(first) == taken
    assert sorted(first + left) == sorted(items)
