"""The four main figures of `/ops`, each with a small SVG chart.

Colours are CSS classes, and unknown values are gaps. The title of a chart describes it, and the page has its figures in
a table.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from langlauf.domain.statistics import OpsStatistics, Percentiles
from langlauf.ui.formats import format_number, format_seconds
from langlauf.ui.language import Language


class Tile(msgspec.Struct, frozen=True):
    """A figure with its chart."""

    name: str
    label: Markup
    value: str
    sentence: Markup
    chart: Markup


def ops_tiles(seen: OpsStatistics, language: Language) -> list[Tile]:
    """Return the tiles: waiting jobs, throughput, wait times and run times."""
    waits = [period.wait_p95 for period in seen.periods]
    runs = [period.run_p95 for period in seen.periods]
    return [
        _waiting_tile(seen, language),
        _throughput_tile(seen, language),
        _times_tile("wait", language.text("ops.wait"), seen.total.wait, waits, language),
        _times_tile("run", language.text("ops.run"), seen.total.run, runs, language),
    ]


def _waiting_tile(seen: OpsStatistics, language: Language) -> Tile:
    label, values = language.text("ops.waiting"), [period.waiting for period in seen.periods]
    most = max((value for value in values if value is not None), default=None)
    sentence = (
        language.text("ops.waiting.unknown")
        if most is None
        else language.text("ops.waiting.most", most=format_number(most, language))
    )
    chart = sparkline("waiting", f"{label}. {sentence}", values)
    return Tile("waiting", label, format_number(seen.total.waiting, language), sentence, chart)


def _throughput_tile(seen: OpsStatistics, language: Language) -> Tile:
    label, total = language.text("ops.done"), seen.total
    ended, failed = format_number(total.ended, language), format_number(total.failed, language)
    sentence = language.text("ops.done.sum", ended=ended, failed=failed)
    values = [None if period.ended is None else BarValue(period.ended, period.failed or 0) for period in seen.periods]
    chart = bar_chart("done", f"{label}. {sentence}", values)
    return Tile("done", label, format_number(total.ended / seen.minutes, language), sentence, chart)


def _times_tile(
    name: str, label: Markup, times: Percentiles | None, values: Sequence[float | None], language: Language
) -> Tile:
    if times is None:
        sentence = language.text("ops.half.none")
    else:
        sentence = language.text("ops.half", half=format_seconds(times.p50, language))
    chart = sparkline(name, f"{label}. {sentence}", values)
    return Tile(name, label, format_seconds(times.p95 if times else None, language), sentence, chart)


_CHART_WIDTH, _CHART_HEIGHT = 240, 48
#: Space above and below the line, so that strokes are not clipped.
_CHART_EDGE = 3
_SVG_FRAME = Markup(
    '<svg class="drawing drawing-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-labelledby="{}" '
    'focusable="false"><title id="{}">{}</title><path class="ground" d="M0 {}H{}"/>{}</svg>'
)


class BarValue(NamedTuple):
    """One bar: the total, and the failed part of it."""

    whole: int
    wrong: int


def sparkline(name: str, title: str, values: Sequence[float | None]) -> Markup:
    """Draw a line through values at equal distances, scaled from zero to the highest."""
    top = max((value for value in values if value is not None), default=0) or 1
    across = [_x_of(number, len(values)) for number in range(len(values))]
    points = [None if value is None else (x, _y_of(value / top)) for x, value in zip(across, values, strict=True)]
    lines = Markup("").join(_polyline(run) for run in _segments(points))
    return _svg("line", name, title, lines)


def bar_chart(name: str, title: str, values: Sequence[BarValue | None]) -> Markup:
    """Draw bars side by side; the failed part is at the bottom, in another colour."""
    top = max((value.whole for value in values if value is not None), default=0) or 1
    step = _CHART_WIDTH / max(len(values), 1)
    drawn = [
        _bar_rects(number * step, step, value, top) for number, value in enumerate(values) if value and value.whole
    ]
    return _svg("bars", name, title, Markup("").join(drawn))


def _svg(kind: str, name: str, title: str, inside: Markup) -> Markup:
    title_id = f"drawing-{name}"
    return _SVG_FRAME.format(
        kind, _CHART_WIDTH, _CHART_HEIGHT, title_id, title_id, title, _CHART_HEIGHT - 1, _CHART_WIDTH, inside
    )


def _x_of(number: int, count: int) -> float:
    return round(_CHART_EDGE + number * (_CHART_WIDTH - 2 * _CHART_EDGE) / max(count - 1, 1), 1)


def _y_of(share: float) -> float:
    return round(_CHART_HEIGHT - _CHART_EDGE - share * (_CHART_HEIGHT - 2 * _CHART_EDGE), 1)


_Point = tuple[float, float]


def _segments(points: Sequence[_Point | None]) -> list[list[_Point]]:
    """Split points into segments without gaps."""
    runs: list[list[_Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _polyline(run: Sequence[_Point]) -> Markup:
    """Draw one segment; a single point becomes a short stroke."""
    if len(run) == 1:
        run = [(run[0][0] - 1, run[0][1]), (run[0][0] + 1, run[0][1])]
    return Markup('<polyline points="{}"/>').format(" ".join(f"{x:g},{y:g}" for x, y in run))


def _bar_rects(left: float, step: float, value: BarValue, top: int) -> Markup:
    room = _CHART_HEIGHT - _CHART_EDGE - 1
    wrong = value.wrong / top * room
    # A few failures among many stay visible.
    wrong = max(wrong, 3.0) if value.wrong else 0.0
    right = max(value.whole / top * room - wrong, 0.0)
    gap = 1.0 if wrong and right > 1 else 0.0
    return _rect("wrong", left, step, _CHART_HEIGHT - 1 - wrong, wrong) + _rect(
        "right", left, step, _CHART_HEIGHT - 1 - wrong - right, right - gap
    )


def _rect(kind: str, left: float, step: float, y: float, height: float) -> Markup:
    if height <= 0:
        return Markup("")
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, f"{left + step * 0.1:.1f}", f"{y:.1f}", f"{step * 0.8:.1f}", f"{height:.1f}"
    )
