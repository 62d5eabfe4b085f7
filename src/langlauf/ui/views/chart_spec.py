"""Vega-Lite specifications of analyses: whether they are safe to render, their size, axes and data, and our theme."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from langlauf.ui.views.raw_json import NULL, is_list, items, members

MAX_SPEC_BYTES = 2 * 1024 * 1024
MAX_POINTS = 20_000
MAX_SIDE = 4_000
#: Default sizes, for a wide page, a window and a phone, where a scaled image would be too small to read.
ChartWidth = Literal["wide", "medium", "narrow"]
_DEFAULT_SIZES: dict[ChartWidth, tuple[int, int]] = {"wide": (1072, 380), "medium": (680, 340), "narrow": (340, 280)}
#: Approximate width of a letter and of the gap between labels.
_LETTER_WIDTH, _LABEL_GAP = 7, 14
_MAX_DEPTH = 40
#: Composed specifications take the sizes of their parts.
_COMPOSED = frozenset({"concat", "hconcat", "vconcat", "repeat", "facet", "spec"})
_DISCRETE = frozenset({"nominal", "ordinal"})
_MAX_TABLES = 3

#: Why a specification is not rendered.
ChartRefusal = Literal["loads", "large", "broken"]


class ChartRefused(Exception):
    """The specification is not rendered."""

    def __init__(self, why: ChartRefusal) -> None:
        super().__init__(why)
        self.why: ChartRefusal = why


def safe_spec(spec_text: Raw, room: ChartWidth = "wide") -> dict[str, Any]:
    """Return the specification, sized for the page; raise ChartRefused where it loads something or is too large."""
    if memoryview(spec_text).nbytes > MAX_SPEC_BYTES:
        raise ChartRefused("large")
    try:
        spec = msgspec.json.decode(spec_text)
    except (msgspec.MsgspecError, RecursionError):
        raise ChartRefused("broken") from None
    if not isinstance(spec, dict):
        raise ChartRefused("broken")
    _check(spec, 0)
    if sum(_point_counts(spec)) > MAX_POINTS:
        raise ChartRefused("large")
    try:
        return _with_points(_with_size(spec, *_DEFAULT_SIZES[room]))
    except (TypeError, AttributeError):  # a part of the specification has an unexpected type
        raise ChartRefused("broken") from None


def _check(part: Any, depth: int) -> None:
    """Refuse anything that is fetched: a URL outside the data values, or an image as a mark."""
    if depth > _MAX_DEPTH:
        raise ChartRefused("large")
    for one in part if isinstance(part, list) else []:
        _check(one, depth + 1)
    if isinstance(part, dict):
        _check_object(part, depth)


def _check_object(part: dict[str, Any], depth: int) -> None:
    if "url" in part or "image" in (part.get("mark"), part.get("type")):
        raise ChartRefused("loads")
    sides = [part.get("width"), part.get("height")]
    if any(isinstance(side, int | float) and side > MAX_SIDE for side in sides):
        raise ChartRefused("large")
    for name, one in part.items():
        if name == "data" and isinstance(one, dict):
            _check({key: value for key, value in one.items() if key != "values"}, depth + 1)
        elif name != "datasets":
            _check(one, depth + 1)


def _point_counts(part: Any) -> Iterator[int]:
    if isinstance(part, dict):
        data = part.get("data")
        if isinstance(data, dict) and isinstance(data.get("values"), list):
            yield len(data["values"])
        datasets = part.get("datasets")
        if isinstance(datasets, dict):
            yield from (len(rows) for rows in datasets.values() if isinstance(rows, list))
        for name, one in part.items():
            if name not in ("data", "datasets"):
                yield from _point_counts(one)
    elif isinstance(part, list):
        for one in part:
            yield from _point_counts(one)


def _with_size(spec: dict[str, Any], width: int, height: int) -> dict[str, Any]:
    """Set width and height of a single view that has none; the height follows its content."""
    if _COMPOSED & spec.keys():
        return spec
    sized = {name: value for name, value in spec.items() if value != "container" or name not in ("width", "height")}
    if "width" in sized:
        return sized
    sized["width"] = width
    if _labels_fit(sized, width):
        config = sized.get("config")
        sized["config"] = {"axisXDiscrete": {"labelAngle": 0}, **(config if isinstance(config, dict) else {})}
    sized.setdefault("autosize", {"type": "fit-x", "contains": "padding"})
    if "height" not in sized and not _has_row_per_value(sized):
        sized["height"] = height
    return sized


def _with_points(spec: dict[str, Any]) -> dict[str, Any]:
    """Give lines invisible points, on which a page shows their values."""
    mark, layers = spec.get("mark"), spec.get("layer")
    if mark in ("line", "area"):
        return {**spec, "mark": {"type": mark, "point": "transparent"}}
    if isinstance(mark, dict) and mark.get("type") in ("line", "area") and "point" not in mark:
        return {**spec, "mark": {**mark, "point": "transparent"}}
    if isinstance(layers, list):
        return {**spec, "layer": [_with_points(one) if isinstance(one, dict) else one for one in layers]}
    return spec


def _labels_fit(spec: dict[str, Any], width: int) -> bool:
    """Whether the labels of the x axis fit side by side, without rotation."""
    channel = spec["encoding"].get("x") if isinstance(spec.get("encoding"), dict) else None
    if not isinstance(channel, dict) or channel.get("type") not in _DISCRETE:
        return False
    labels = {str(row.get(channel.get("field"))) for row in _data_rows(spec) if isinstance(row, dict)}
    return len(labels) * (max(map(len, labels), default=0) * _LETTER_WIDTH + _LABEL_GAP) < width


def _layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    layers = spec.get("layer")
    return [one for one in layers if isinstance(one, dict)] if isinstance(layers, list) else []


def _data_rows(spec: dict[str, Any]) -> list[Any]:
    data, datasets = spec.get("data"), spec.get("datasets")
    if not isinstance(data, dict):
        return []
    values = data.get("values")
    if isinstance(datasets, dict) and values is None:
        values = datasets.get(data.get("name"))
    return values if isinstance(values, list) else []


def _has_row_per_value(spec: dict[str, Any]) -> bool:
    """Whether the y axis has a row for each value."""
    parts = [spec, *_layers(spec)]
    encodings = [part["encoding"] for part in parts if isinstance(part.get("encoding"), dict)]
    downs = [encoding["y"] for encoding in encodings if isinstance(encoding.get("y"), dict)]
    return any(down.get("type") in _DISCRETE for down in downs)


class ChartAxes(msgspec.Struct, frozen=True):
    """Title and axis names, the default description of a chart."""

    title: str
    x: str
    y: str


def chart_axes(spec: dict[str, Any]) -> ChartAxes:
    """Return title and axis names; empty where there are none."""
    parts = [spec, *_layers(spec)]
    title = spec.get("title", "")
    title = title.get("text", "") if isinstance(title, dict) else title
    return ChartAxes(
        title if isinstance(title, str) else "", *(_channel_name(parts, channel) for channel in ("x", "y"))
    )


def _channel_name(parts: list[dict[str, Any]], channel: str) -> str:
    for part in parts:
        encoding = part.get("encoding")
        found = encoding.get(channel) if isinstance(encoding, dict) else None
        if isinstance(found, dict):
            for key in ("title", "field", "aggregate"):
                if isinstance(found.get(key), str):
                    return str(found[key])
    return ""


def chart_rows(spec_text: Raw) -> list[list[Raw]]:
    """Return the inline data of a specification as rows, one list per dataset."""
    if memoryview(spec_text).nbytes > MAX_SPEC_BYTES:
        return []
    return [rows for rows in _datasets(spec_text, 0) if rows][:_MAX_TABLES]


def _datasets(part: Raw, depth: int) -> Iterator[list[Raw]]:
    named = members(part)
    for name, one in named.items():
        if name == "data":
            yield items(members(one).get("values", NULL))
        elif name == "datasets":
            yield from (items(rows) for rows in members(one).values())
        elif depth < _MAX_DEPTH and is_list(one):
            for inner in items(one):
                yield from _datasets(inner, depth + 1)


ChartTheme = Literal["light", "dark"]
FONT = "Helvetica Neue, Arial, DejaVu Sans, sans-serif"
#: Colours of text, muted text, lines and marks, visible on the page's background.
TEXT: dict[ChartTheme, str] = {"light": "#1b1f24", "dark": "#e8ebef"}
MUTED: dict[ChartTheme, str] = {"light": "#4b5563", "dark": "#aab4c0"}
RULE: dict[ChartTheme, str] = {"light": "#d9dde3", "dark": "#343a44"}
MARKS: dict[ChartTheme, list[str]] = {
    "light": ["#083cb3", "#b45309", "#076e4d", "#a3246b", "#5e676f", "#6d28d9", "#0e7490", "#885e04"],
    "dark": ["#79b0ff", "#f2a65e", "#35d6a8", "#ff8fc0", "#aab4c0", "#c4a5ff", "#5bd0e6", "#f2c14e"],
}
RAMPS: dict[ChartTheme, list[str]] = {"light": ["#cfdff8", "#083cb3"], "dark": ["#254066", "#b9d6ff"]}
_SMALL_FONT, _TEXT_FONT, _TITLE_FONT = 12, 13, 15


def theme_config(theme: ChartTheme) -> dict[str, Any]:
    """Return our Vega-Lite configuration; the author's own takes precedence."""
    first = MARKS[theme][0]
    words = {
        "labelColor": MUTED[theme],
        "titleColor": TEXT[theme],
        "labelFontSize": _SMALL_FONT,
        "titleFontSize": _SMALL_FONT,
    }
    axis = {"domainColor": RULE[theme], "gridColor": RULE[theme], "tickColor": RULE[theme], "titleFontWeight": 600}
    calm = {"tickCount": 5, "ticks": False, "domain": False, "labelPadding": 6}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None, "continuousWidth": 320, "continuousHeight": 240},
        "axis": {**words, **axis, "titlePadding": 10, "labelLimit": 180},
        "axisQuantitative": calm,
        "axisBand": {"ticks": False, "labelPadding": 6, "grid": False},
        "axisPoint": {"ticks": False, "labelPadding": 6, "grid": False},
        "legend": words,
        "header": words,
        "title": {"color": TEXT[theme], "fontSize": _TITLE_FONT, "fontWeight": 600, "anchor": "start", "offset": 12},
        "range": {"category": MARKS[theme], "ramp": RAMPS[theme], "heatmap": RAMPS[theme], "ordinal": RAMPS[theme]},
        "mark": {"color": first},
        "text": {"color": TEXT[theme], "fontSize": _TEXT_FONT},
        "rule": {"color": MUTED[theme]},
        "line": {"strokeWidth": 2.5, "strokeCap": "round"},
        "point": {"size": 50, "filled": True},
        "circle": {"size": 50},
        "bar": {"cornerRadiusEnd": 2},
    }
