"""The Prefer header as RFC 7240 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.api.submit_request import read_prefer_header


@pytest.mark.parametrize(
    ("headers", "applied"),
    [
        ([], None),
        ([""], None),
        (["respond-async"], "respond-async"),
        (["Respond-Async"], "respond-async"),
        (["respond-async; foo=bar"], "respond-async"),
        (['respond-async=""'], "respond-async"),
        (["respond-async=false"], None),
        (["wait=5"], None),
        (["respond-async, wait=5"], "respond-async, wait=5"),
        (["respond-async,wait = 5"], "respond-async, wait=5"),
        (['wait="5", respond-async'], "respond-async, wait=5"),
        (["respond-async", "wait=5"], "respond-async, wait=5"),
        (["wait=5; x=1, respond-async"], "respond-async, wait=5"),
        (["respond-async, wait=5, wait=9"], "respond-async, wait=5"),
        (["respond-async, WAIT=5"], "respond-async, wait=5"),
        (["respond-async, wait=0"], "respond-async, wait=0"),
        (["respond-async, wait=31"], "respond-async, wait=30"),
        (["respond-async, wait=" + "9" * 400], "respond-async, wait=30"),
        (["respond-async, wait=-1"], "respond-async"),
        (["respond-async, wait=1.5"], "respond-async"),
        (["respond-async, wait=٣"], "respond-async"),
        (["respond-async, wait"], "respond-async"),
        (['foo="x, respond-async"'], None),
        (['foo="x, \\", respond-async"'], None),
        (['foo="a,b"; c="d,e;f", respond-async'], "respond-async"),
        (['foo="never closed, respond-async'], None),
        (["@@@, respond-async"], "respond-async"),
        ([", ,respond-async,,"], "respond-async"),
        (["return=minimal, handling=lenient"], None),
    ],
)
def test_what_is_honoured(headers: list[str], applied: str | None) -> None:
    """Several lines are one list, names in any case, the first of a kind counts, the unknown is ignored."""
    assert read_prefer_header(headers).applied == applied


@given(st.lists(st.text(alphabet='respond-async,;="\\ wait0123\t', max_size=60), max_size=3))
def test_nothing_a_caller_sends_breaks_it(headers: list[str]) -> None:
    """A preference is never an error."""
    assert 0 <= read_prefer_header(headers).wait_seconds <= 30
