"""Values of a chart: what each mark stands for, and where it is in the image."""

import asyncio
from typing import Any

import msgspec
from msgspec import Raw

from langlauf.ui.language import load_language
from langlauf.ui.views.chart_renderer import MAX_VALUES, ChartRenderer, RenderedChart, chart_values
from langlauf.ui.views.chart_spec import safe_spec
from tests.support.view_samples import ATTACK, BARS

LINE: dict[str, Any] = {
    "data": {"values": [{"k": 2, "s": 0.5}, {"k": 3, "s": 0.7}, {"k": 4, "s": 0.6}]},
    "mark": "line",
    "encoding": {"x": {"field": "k", "type": "ordinal"}, "y": {"field": "s", "type": "quantitative"}},
}


def _drawn(board: ChartRenderer, spec: Any) -> RenderedChart:
    drawn = asyncio.run(board.draw(safe_spec(Raw(msgspec.json.encode(spec))), "light", load_language("en")))
    assert isinstance(drawn, RenderedChart)
    return drawn


def test_bars_and_lines_have_a_value_per_mark_inside_the_image() -> None:
    """Also a line without visible points; a text of the data is text."""
    board = ChartRenderer()
    for spec, marks in ((BARS, 3), (LINE, 3)):
        drawn = _drawn(board, spec)
        assert len(drawn.values) == marks
        for value in drawn.values:
            assert 0 <= value.x <= drawn.width - value.width / 2
            assert 0 <= value.y <= drawn.height - value.height / 2
    assert {value.text for value in _drawn(board, LINE).values} == {"k: 2; s: 0.5", "k: 3; s: 0.7", "k: 4; s: 0.6"}
    attack = {**BARS, "data": {"values": [{"city": ATTACK, "level": 3}]}}
    [value] = _drawn(board, attack).values
    assert "<script>" in value.text


def test_marks_are_found_by_their_groups_and_paths() -> None:
    """Moves add up, relative steps are followed, a second mark at the same place is left out."""
    bar = '<path aria-label="a: 1" aria-roledescription="bar" d="M0,2h100v20h-100Z"/>'
    svg = f'<svg><g transform="translate(10,5)"><g transform="translate(1,1)">{bar}{bar}</g></g>{bar}</svg>'
    assert [(one.x, one.y, one.width, one.height) for one in chart_values(svg)] == [(11, 8, 100, 20), (0, 2, 100, 20)]
    assert chart_values('<path aria-label="a" aria-roledescription="line mark" d="M0,0L9,9"/>') == []
    mark = '<path aria-label="a" transform="translate({},0)" d="M1,0A1,1,0,1,1,-1,0"/>'
    assert chart_values("".join(mark.format(3 * number) for number in range(MAX_VALUES + 1))) == []
