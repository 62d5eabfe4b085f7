"""A chart of somebody else's making: whether it may be drawn, how large, what it says, and what it shows as rows."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from langlauf.ui.showing.written import NULL, is_list, items, members

LARGEST_SPEC = 2 * 1024 * 1024
MOST_POINTS = 20_000
LARGEST_SIDE = 4_000
#: A chart without a size of its own: on a page, and on a phone, where a shrunken one could not be read.
Room = Literal["wide", "narrow"]
_SIZES: dict[Room, tuple[int, int]] = {"wide": (720, 340), "narrow": (340, 280)}
#: About as wide is a letter of a label, and the room between two labels.
_LETTER, _GAP = 7, 14
_DEEPEST = 40
#: Specifications that are made of others have the sizes of their parts.
_COMPOSED = frozenset({"concat", "hconcat", "vconcat", "repeat", "facet", "spec"})
_DISCRETE = frozenset({"nominal", "ordinal"})
_MOST_TABLES = 3

#: Why a specification is not drawn at all.
Refusal = Literal["loads", "large", "broken"]


class Refused(Exception):
    """The specification is not drawn."""

    def __init__(self, why: Refusal) -> None:
        super().__init__(why)
        self.why: Refusal = why


def harmless(spec_text: Raw, room: Room = "wide") -> dict[str, Any]:
    """The specification, where it loads nothing and is not too large; made to fill the width that there is."""
    if memoryview(spec_text).nbytes > LARGEST_SPEC:
        raise Refused("large")
    try:
        spec = msgspec.json.decode(spec_text)
    except (msgspec.MsgspecError, RecursionError):
        raise Refused("broken") from None
    if not isinstance(spec, dict):
        raise Refused("broken")
    _check(spec, 0)
    if sum(_points(spec)) > MOST_POINTS:
        raise Refused("large")
    try:
        return _sized(spec, *_SIZES[room])
    except (TypeError, AttributeError):  # something in it is not what it is in a specification
        raise Refused("broken") from None


def _check(part: Any, depth: int) -> None:
    """Nothing is fetched: no address anywhere but among the values of the data, no picture as a mark."""
    if depth > _DEEPEST:
        raise Refused("large")
    for one in part if isinstance(part, list) else []:
        _check(one, depth + 1)
    if isinstance(part, dict):
        _check_object(part, depth)


def _check_object(part: dict[str, Any], depth: int) -> None:
    if "url" in part or "image" in (part.get("mark"), part.get("type")):
        raise Refused("loads")
    sides = [part.get("width"), part.get("height")]
    if any(isinstance(side, int | float) and side > LARGEST_SIDE for side in sides):
        raise Refused("large")
    for name, one in part.items():
        if name == "data" and isinstance(one, dict):
            _check({key: value for key, value in one.items() if key != "values"}, depth + 1)
        elif name != "datasets":
            _check(one, depth + 1)


def _points(part: Any) -> Iterator[int]:
    if isinstance(part, dict):
        data = part.get("data")
        if isinstance(data, dict) and isinstance(data.get("values"), list):
            yield len(data["values"])
        datasets = part.get("datasets")
        if isinstance(datasets, dict):
            yield from (len(rows) for rows in datasets.values() if isinstance(rows, list))
        for name, one in part.items():
            if name not in ("data", "datasets"):
                yield from _points(one)
    elif isinstance(part, list):
        for one in part:
            yield from _points(one)


def _sized(spec: dict[str, Any], width: int, height: int) -> dict[str, Any]:
    """A single view without a size of its own is as wide as a page; the height follows what it shows."""
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
    if "height" not in sized and not _steps_down(sized):
        sized["height"] = height
    return sized


def _labels_fit(spec: dict[str, Any], width: int) -> bool:
    """Whether the labels below a chart have room side by side, so that nobody has to turn their head."""
    channel = spec["encoding"].get("x") if isinstance(spec.get("encoding"), dict) else None
    if not isinstance(channel, dict) or channel.get("type") not in _DISCRETE:
        return False
    labels = {str(row.get(channel.get("field"))) for row in _rows(spec) if isinstance(row, dict)}
    return len(labels) * (max(map(len, labels), default=0) * _LETTER + _GAP) < width


def _layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    layers = spec.get("layer")
    return [one for one in layers if isinstance(one, dict)] if isinstance(layers, list) else []


def _rows(spec: dict[str, Any]) -> list[Any]:
    data, datasets = spec.get("data"), spec.get("datasets")
    if not isinstance(data, dict):
        return []
    values = data.get("values")
    if isinstance(datasets, dict) and values is None:
        values = datasets.get(data.get("name"))
    return values if isinstance(values, list) else []


def _steps_down(spec: dict[str, Any]) -> bool:
    """Whether each value has a line of its own."""
    parts = [spec, *_layers(spec)]
    encodings = [part["encoding"] for part in parts if isinstance(part.get("encoding"), dict)]
    downs = [encoding["y"] for encoding in encodings if isinstance(encoding.get("y"), dict)]
    return any(down.get("type") in _DISCRETE for down in downs)


class Axes(msgspec.Struct, frozen=True):
    """What a chart says of itself, where nobody said it in a sentence."""

    title: str
    x: str
    y: str


def axes_of(spec: dict[str, Any]) -> Axes:
    """Title and names of the two directions; empty where there are none."""
    parts = [spec, *_layers(spec)]
    title = spec.get("title", "")
    title = title.get("text", "") if isinstance(title, dict) else title
    return Axes(title if isinstance(title, str) else "", *(_named(parts, channel) for channel in ("x", "y")))


def _named(parts: list[dict[str, Any]], channel: str) -> str:
    for part in parts:
        encoding = part.get("encoding")
        found = encoding.get(channel) if isinstance(encoding, dict) else None
        if isinstance(found, dict):
            for key in ("title", "field", "aggregate"):
                if isinstance(found.get(key), str):
                    return str(found[key])
    return ""


def rows_of(spec_text: Raw) -> list[list[Raw]]:
    """The data that stand in a specification, as rows; in parts where there are several."""
    if memoryview(spec_text).nbytes > LARGEST_SPEC:
        return []
    return [rows for rows in _datasets(spec_text, 0) if rows][:_MOST_TABLES]


def _datasets(part: Raw, depth: int) -> Iterator[list[Raw]]:
    named = members(part)
    for name, one in named.items():
        if name == "data":
            yield items(members(one).get("values", NULL))
        elif name == "datasets":
            yield from (items(rows) for rows in members(one).values())
        elif depth < _DEEPEST and is_list(one):
            for inner in items(one):
                yield from _datasets(inner, depth + 1)
