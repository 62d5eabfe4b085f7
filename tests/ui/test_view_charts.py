"""Charts: what is refused, what is drawn, and what happens to one that takes too long or breaks the process."""

import asyncio
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec import Raw

from langlauf.ui.language import load_language
from langlauf.ui.views import chart_renderer as drawing
from langlauf.ui.views import chart_spec as charts
from langlauf.ui.views.chart_renderer import ChartFailure, ChartRenderer, RenderedChart
from langlauf.ui.views.chart_spec import (
    MARKS,
    MUTED,
    TEXT,
    ChartRefused,
    ChartTheme,
    chart_axes,
    chart_rows,
    safe_spec,
    theme_config,
)
from tests.support.view_samples import ATTACK, BARS
from tests.ui.test_colours import contrast


def raw(spec: Any) -> Raw:
    """A specification as it is stored."""
    return Raw(msgspec.json.encode(spec))


def draw(board: ChartRenderer, spec: Any, theme: ChartTheme = "light") -> RenderedChart | ChartFailure:
    """Draws what is safe_spec."""
    return asyncio.run(board.draw(safe_spec(raw(spec)), theme, load_language("en")))


@pytest.fixture(scope="module")
def board() -> ChartRenderer:
    """One process for these tests."""
    return ChartRenderer()


@pytest.mark.parametrize(
    "spec",
    [
        {**BARS, "data": {"url": "https://example.org/a.csv"}},
        {**BARS, "data": {"url": "file:///etc/passwd"}},
        {"layer": [{"data": {"url": "data:text/csv,a"}, "mark": "bar"}]},
        {**BARS, "transform": [{"lookup": "a", "from": {"data": {"url": "//example.org"}, "key": "a"}}]},
        {**BARS, "mark": "image"},
        {**BARS, "mark": {"type": "image"}},
        {**BARS, "mark": {"type": "bar", "url": "x"}},
        {**BARS, "encoding": {"url": {"field": "city"}}},
        {"hconcat": [{"vconcat": [{"spec": {"mark": {"type": "image"}}}]}]},
        {**BARS, "config": {"image": {"url": "https://example.org"}}},
    ],
)
def test_nothing_that_loads_is_drawn(spec: dict[str, Any]) -> None:
    """Whatever would ask for an address, or show a picture, wherever it stands."""
    with pytest.raises(ChartRefused) as refused:
        safe_spec(raw(spec))
    assert refused.value.why == "loads"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({**BARS, "width": charts.MAX_SIDE + 1}, "large"),
        ({**BARS, "data": {"values": [1] * (charts.MAX_POINTS + 1)}}, "large"),
        ({**BARS, "datasets": {"a": [1] * 11_000, "b": [1] * 11_000}}, "large"),
        ({**BARS, "description": "x" * charts.MAX_SPEC_BYTES}, "large"),
        ([], "broken"),
    ],
)
def test_what_is_too_large_is_not_drawn(spec: Any, why: str) -> None:
    """Sides, points, bytes."""
    with pytest.raises(ChartRefused) as refused:
        safe_spec(raw(spec))
    assert refused.value.why == why


@pytest.mark.parametrize(
    "data",
    [
        {"data": {"values": [{"url": "https://example.org", "type": "image", "mark": "image"}]}},
        {"data": {"name": "d"}, "datasets": {"d": [{"url": "https://example.org", "type": "image"}]}},
    ],
)
def test_addresses_among_the_data_are_data(data: dict[str, Any]) -> None:
    """A row may have a field of any name: the specification is accepted, and its data stay as they are."""
    accepted = safe_spec(raw({**BARS, **data}))
    assert {name: accepted[name] for name in data} == data


def test_a_chart_is_drawn_in_both_themes_and_remembered(board: ChartRenderer) -> None:
    """With our colours, as wide as a page, and the second time without drawing; texts in it are only texts."""
    spec = {**BARS, "title": ATTACK}
    light, dark = draw(board, spec), draw(board, spec, "dark")
    assert isinstance(light, RenderedChart)
    assert isinstance(dark, RenderedChart)
    assert (light.width, light.height > 100) == (1072, True)
    assert MARKS["light"][0].encode() in light.svg
    assert MARKS["dark"][0].encode() in dark.svg
    elements = list(ET.fromstring(light.svg).iter())  # noqa: S314 - what our own process drew
    assert ATTACK in {element.text for element in elements}
    assert {element.tag.rpartition("}")[2] for element in elements} <= {
        *("svg", "g", "path", "line", "text", "rect", "defs", "clipPath"),
    }
    assert not [name for element in elements for name in element.attrib if name.startswith("on")]
    assert draw(board, spec) is light


def test_the_author_has_the_last_word(board: ChartRenderer) -> None:
    """A configuration and a size in the specification win over ours."""
    drawn = draw(board, {**BARS, "width": 200, "config": {"mark": {"color": "#123456"}}})
    assert isinstance(drawn, RenderedChart)
    assert b"#123456" in drawn.svg
    assert drawn.width < 400


@pytest.mark.parametrize("spec", [{"mark": "nonsense"}, {}, {**BARS, "mark": {"type": 7}}])
def test_a_broken_specification_is_said_to_be_one(board: ChartRenderer, spec: dict[str, Any]) -> None:
    """And the next one is drawn all the same."""
    assert draw(board, spec) == ChartFailure("broken")
    assert isinstance(draw(board, {**BARS, "height": 111}), RenderedChart)


def test_a_chart_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is ended; the next chart gets another one."""
    monkeypatch.setattr(drawing, "_START_SECONDS", 0.0)
    hasty = ChartRenderer(seconds=0.001)
    assert draw(hasty, BARS) == ChartFailure("slow")
    assert hasty._hand._process is None


def test_who_waits_too_long_is_told_to_come_again() -> None:
    """The chart is drawn to its end meanwhile, and is there the next time."""
    board = ChartRenderer(patience=0.0)
    assert draw(board, BARS) == ChartFailure("busy")
    board._patience = 30.0
    assert isinstance(draw(board, BARS), RenderedChart)
    board._waiting = drawing._MAX_WAITING
    assert draw(board, {**BARS, "height": 99}) == ChartFailure("busy")


def test_a_chart_that_eats_all_memory_ends_its_process_alone(board: ChartRenderer) -> None:
    """The process is gone or given up, we are not, and the next chart is drawn."""
    endless = {"data": {"sequence": {"start": 0, "stop": 1e9}}, "mark": "point", "encoding": {"x": {"field": "data"}}}
    assert isinstance(draw(board, endless), ChartFailure)
    assert isinstance(draw(board, {**BARS, "height": 222}), RenderedChart)


def test_one_that_ended_by_itself_is_replaced(board: ChartRenderer) -> None:
    """As after a long time without a chart."""
    draw(board, {**BARS, "height": 301})
    process = board._hand._process
    assert process is not None
    process.kill()
    process.wait()
    assert isinstance(draw(board, {**BARS, "height": 302}), RenderedChart)


def test_without_the_extra_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says how to get one."""
    monkeypatch.setattr(drawing, "charts_installed", lambda: False)
    assert draw(ChartRenderer(), BARS) == ChartFailure("missing")


def test_a_chart_says_what_it_shows() -> None:
    """Its title and its axes, and its data as rows, wherever they stand."""
    axes = chart_axes({**BARS, "title": {"text": "Noise"}})
    assert (axes.title, axes.x, axes.y) == ("Noise", "City", "Level (dB)")
    assert [len(part) for part in chart_rows(raw(BARS))] == [3]
    assert [len(part) for part in chart_rows(raw({"layer": [BARS, {"datasets": {"a": [1, 2]}}]}))] == [3, 2]
    assert chart_axes({"mark": "bar", "title": ["a"], "encoding": 7, "layer": [3]}).title == ""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_charts_can_be_seen(theme: ChartTheme) -> None:
    """Marks stand out from the page by 3:1, texts by 4.5:1."""
    ground = {"light": "#ffffff", "dark": "#14171c"}[theme]
    assert min(contrast(mark, ground) for mark in MARKS[theme]) >= 3
    assert min(contrast(text, ground) for text in (TEXT[theme], MUTED[theme])) >= 4.5
    assert theme_config(theme)["background"] == "transparent"
