"""Trace context as the W3C has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.domain.provenance import Trace, read_trace

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("header", "passed_on"),
    [
        (GOOD, GOOD),
        (f" {GOOD} ", GOOD),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"00-{TRACE}-{SPAN}-03", f"00-{TRACE}-{SPAN}-03"),
        (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),
        (f"cc-{TRACE}-{SPAN}-01", GOOD),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", GOOD),
        (f"cc-{TRACE}-{SPAN}-01-", GOOD),
    ],
)
def test_a_traceparent_is_parsed(header: str, passed_on: str) -> None:
    """A later version is read as far as it is known, and passed on in ours, with the flags that are known."""
    assert read_trace([header]) == Trace(TRACE, passed_on)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        [GOOD, GOOD],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [GOOD.upper()],
        [f"{GOOD}-more"],
        [f"{GOOD}x"],
        [f"cc-{TRACE}-{SPAN}-01x"],
        [f"0-{TRACE}-{SPAN}-01"],
        [f"00-{TRACE[1:]}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}"],
        [f"00-{TRACE}-{SPAN}-1"],
        [f"zz-{TRACE}-{SPAN}-01"],
        [f"{GOOD},{GOOD}"],
    ],
)
def test_a_malformed_traceparent_is_ignored(headers: list[str]) -> None:
    """Then a new trace begins, and tracestate goes with it."""
    assert read_trace(headers, ["vendor=1"]) is None


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        ([], None),
        ([""], None),
        (["congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"], "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
        (["a=1", "b=2"], "a=1,b=2"),
        (["a=1 , ,\tb=2"], "a=1,b=2"),
        (["tenant@vendor=x y"], "tenant@vendor=x y"),
        (["a=1,a=2"], None),
        (["A=1"], None),
        (["a=é"], None),
        (["a"], None),
        (["a=1\nX-Evil: 1"], None),
        ([",".join(f"k{number}=v" for number in range(33))], None),
    ],
)
def test_tracestate_is_kept_unchanged(states: list[str], kept: str | None) -> None:
    """Several lines are one list; one that cannot be read is left out, and the trace goes on without."""
    assert read_trace([GOOD], states) == Trace(TRACE, GOOD, kept)


def test_a_long_tracestate_loses_whole_members() -> None:
    """The oldest stand at the end."""
    members = [f"k{number}={'v' * 60}" for number in range(20)]
    trace = read_trace([GOOD], [",".join(members)])
    assert trace is not None
    assert trace.tracestate == ",".join(members[:8])
    assert len(trace.tracestate) <= 512


@given(st.lists(st.text(max_size=80), max_size=2), st.lists(st.text(max_size=80), max_size=3))
def test_nothing_a_caller_sends_breaks_it(parents: list[str], states: list[str]) -> None:
    """Whatever is taken can stand in a header."""
    for trace in (read_trace(parents, states), read_trace([GOOD], states)):
        text = f"{trace.traceparent}{trace.tracestate or ''}" if trace else ""
        assert text.isascii()
        assert text.isprintable()
