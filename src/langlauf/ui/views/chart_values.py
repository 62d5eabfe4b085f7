"""The values of a rendered chart: where each mark is, and what it stands for, so that pages can show it on hover."""

import html
import re

import msgspec

MAX_VALUES = 400
#: More values than this cannot be stepped through; the table below the chart has them.
MAX_FOCUSABLE = 40
_MAX_LABEL = 120
#: A mark that is smaller is hard to hit.
_MIN_SIDE = 12.0
_TOKEN = re.compile(r"<(/?)(g|path)\b([^>]*?)(/?)>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_TRANSLATE = re.compile(r"translate\((-?[0-9.e-]+),(-?[0-9.e-]+)\)")
_STEP = re.compile(r"([MLHVCSQTAZmlhvcsqtaz])([^MLHVCSQTAZmlhvcsqtaz]*)")
_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]+(?:e-?[0-9]+)?")
#: How many numbers a command takes; its last two are where it ends.
_TAKES = {"M": 2, "L": 2, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7}
#: Lines and areas have one mark for all their values.
_WHOLE_MARKS = ("line mark", "area mark")


class ChartValue(msgspec.Struct, frozen=True, kw_only=True):
    """A mark: its box in the image, and its values in words."""

    x: float
    y: float
    width: float
    height: float
    text: str


def chart_values(svg: str) -> list[ChartValue]:
    """Return the marks of a chart, one per place; none where it has more than people can look at."""
    found: dict[tuple[float, float], ChartValue] = {}
    at = [(0.0, 0.0)]
    for token in _TOKEN.finditer(svg):
        closing, tag, rest, alone = token.groups()
        if closing:
            if tag == "g" and len(at) > 1:
                at.pop()
            continue
        attributes = dict(_ATTRIBUTE.findall(rest))
        place = _moved(at[-1], attributes.get("transform", ""))
        if tag == "g":
            if not alone:
                at.append(place)
        elif _is_value(attributes) and (value := _value(attributes, place)) is not None:
            found.setdefault((round(value.x), round(value.y)), value)
            if len(found) > MAX_VALUES:
                return []
    return list(found.values())


def _is_value(attributes: dict[str, str]) -> bool:
    kind = attributes.get("aria-roledescription", "")
    return bool(attributes.get("aria-label")) and kind not in _WHOLE_MARKS and not kind.startswith(("axis", "legend"))


def _moved(at: tuple[float, float], transform: str) -> tuple[float, float]:
    found = _TRANSLATE.search(transform)
    return at if found is None else (at[0] + float(found[1]), at[1] + float(found[2]))


def _value(attributes: dict[str, str], at: tuple[float, float]) -> ChartValue | None:
    corners = _corners(attributes.get("d", ""))
    if not corners:
        return None
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    top, bottom = min(y for _, y in corners), max(y for _, y in corners)
    width, height = max(right - left, _MIN_SIDE), max(bottom - top, _MIN_SIDE)
    text = html.unescape(attributes["aria-label"])
    return ChartValue(
        x=round(at[0] + (left + right - width) / 2, 1),
        y=round(at[1] + (top + bottom - height) / 2, 1),
        width=round(width, 1),
        height=round(height, 1),
        text=text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…",
    )


def _corners(path: str) -> list[tuple[float, float]]:
    """Return where the commands of a path end."""
    x = y = 0.0
    corners = []
    for command, rest in _STEP.findall(path):
        numbers = [float(number) for number in _NUMBER.findall(rest)]
        relative, kind = command.islower(), command.upper()
        if kind in ("H", "V"):
            for number in numbers:
                x, y = (_to(x, number, relative), y) if kind == "H" else (x, _to(y, number, relative))
                corners.append((x, y))
        elif kind in _TAKES:
            takes = _TAKES[kind]
            for end in range(takes, len(numbers) + 1, takes):
                x, y = _to(x, numbers[end - 2], relative), _to(y, numbers[end - 1], relative)
                corners.append((x, y))
    return corners


def _to(now: float, number: float, relative: bool) -> float:
    return now + number if relative else number
