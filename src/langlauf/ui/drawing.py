"""Small charts as plain SVG: a line, and bars. Colours are classes; what is not known is a gap.

A chart is a picture for those who see it. Its title says in words what it shows, and the page has its figures in a
table.
"""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

_WIDTH, _HEIGHT = 240, 48
#: Room above the highest point and below the lowest, so that strokes are not cut off.
_EDGE = 3
_FRAME = Markup(
    '<svg class="drawing drawing-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-labelledby="{}" '
    'focusable="false"><title id="{}">{}</title><path class="ground" d="M0 {}H{}"/>{}</svg>'
)


class Bar(NamedTuple):
    """One bar: all of it, and the part of it that went wrong."""

    whole: int
    wrong: int


def sparkline(name: str, title: str, values: Sequence[float | None]) -> Markup:
    """A line through values at equal distances, from nothing up to the highest of them."""
    top = max((value for value in values if value is not None), default=0) or 1
    across = [_across(number, len(values)) for number in range(len(values))]
    points = [None if value is None else (x, _up(value / top)) for x, value in zip(across, values, strict=True)]
    lines = Markup("").join(_line(run) for run in _runs(points))
    return _framed("line", name, title, lines)


def bars(name: str, title: str, values: Sequence[Bar | None]) -> Markup:
    """Bars side by side; what went wrong is the lower part of each, in another colour, with a gap above it."""
    top = max((value.whole for value in values if value is not None), default=0) or 1
    step = _WIDTH / max(len(values), 1)
    drawn = [_bar(number * step, step, value, top) for number, value in enumerate(values) if value and value.whole]
    return _framed("bars", name, title, Markup("").join(drawn))


def _framed(kind: str, name: str, title: str, inside: Markup) -> Markup:
    title_id = f"drawing-{name}"
    return _FRAME.format(kind, _WIDTH, _HEIGHT, title_id, title_id, title, _HEIGHT - 1, _WIDTH, inside)


def _across(number: int, count: int) -> float:
    return round(_EDGE + number * (_WIDTH - 2 * _EDGE) / max(count - 1, 1), 1)


def _up(share: float) -> float:
    return round(_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE), 1)


Point = tuple[float, float]


def _runs(points: Sequence[Point | None]) -> list[list[Point]]:
    """The stretches between gaps."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _line(run: Sequence[Point]) -> Markup:
    """One stretch; a point with gaps on both sides is a short stroke."""
    if len(run) == 1:
        run = [(run[0][0] - 1, run[0][1]), (run[0][0] + 1, run[0][1])]
    return Markup('<polyline points="{}"/>').format(" ".join(f"{x:g},{y:g}" for x, y in run))


def _bar(left: float, step: float, value: Bar, top: int) -> Markup:
    room = _HEIGHT - _EDGE - 1
    wrong = value.wrong / top * room
    # However few went wrong among many, it can be seen.
    wrong = max(wrong, 3.0) if value.wrong else 0.0
    right = max(value.whole / top * room - wrong, 0.0)
    gap = 1.0 if wrong and right > 1 else 0.0
    return _rect("wrong", left, step, _HEIGHT - 1 - wrong, wrong) + _rect(
        "right", left, step, _HEIGHT - 1 - wrong - right, right - gap
    )


def _rect(kind: str, left: float, step: float, y: float, height: float) -> Markup:
    if height <= 0:
        return Markup("")
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, f"{left + step * 0.1:.1f}", f"{y:.1f}", f"{step * 0.8:.1f}", f"{height:.1f}"
    )
