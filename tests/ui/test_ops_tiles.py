"""Small charts: sound markup, within their frame, with gaps where nothing is known."""

import re

from hypothesis import given
from hypothesis import strategies as st

from langlauf.ui.pages.ops_tiles import BarValue, bar_chart, sparkline
from tests.ui.html_page import HtmlPage

_POINT = re.compile(r"(-?[\d.]+),(-?[\d.]+)")


def test_a_chart_has_a_title_that_is_escaped() -> None:
    """And is found by its name."""
    made = HtmlPage(sparkline("x", "a <b> & c", [1, 2]))
    [drawing] = made.all("svg")
    assert (drawing["role"], drawing["aria-labelledby"]) == ("img", "drawing-x")
    assert made.all("title") == [{"id": "drawing-x"}]
    assert made.text_of("title") == "a <b> & c"


def test_a_gap_is_a_gap() -> None:
    """A value alone between two of them can still be seen."""
    lines = HtmlPage(sparkline("x", "t", [1, 2, None, 3, None, None, 4, 5])).all("polyline")
    assert [len(_POINT.findall(line["points"])) for line in lines] == [2, 2, 2]
    assert HtmlPage(sparkline("x", "t", [None, None])).all("polyline") == []


@given(st.lists(st.none() | st.floats(0, 1e9), max_size=40))
def test_a_line_stays_within_its_frame(values: list[float | None]) -> None:
    """Its highest value at the top, nothing at the bottom."""
    for line in HtmlPage(sparkline("x", "t", values)).all("polyline"):
        for x, y in _POINT.findall(line["points"]):
            assert 0 <= float(x) <= 240
            assert 3 <= float(y) <= 45


@given(st.lists(st.none() | st.tuples(st.integers(0, 10**6), st.floats(0, 1)), max_size=40))
def test_bars_stay_within_their_frame(values: list[tuple[int, float] | None]) -> None:
    """None for nothing; what went wrong is drawn, however little it is."""
    given_bars = [None if one is None else BarValue(one[0], int(one[0] * one[1])) for one in values]
    drawn = HtmlPage(bar_chart("x", "t", given_bars)).all("rect")
    for one in drawn:
        assert 0 <= float(one["x"]) <= float(one["x"]) + float(one["width"]) <= 240
        assert 0 <= float(one["y"]) <= float(one["y"]) + float(one["height"]) <= 48
    assert sum(one["class"] == "wrong" for one in drawn) == sum(bool(one and one.wrong) for one in given_bars)
