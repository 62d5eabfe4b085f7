"""The shapes of a map: GeoJSON as points, lines and areas, and their labels, none over another."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from langlauf.ui.views.raw_json import NULL, items, members, raw_text

# -- GeoJSON -----------------------------------------------------------------------------------------------------------

MAX_FEATURES = 2_000
MAX_POSITIONS = 50_000
_MAX_NESTING = 8
_NAME_PROPERTIES = ("name", "title", "label", "id")
_MIN_COORDINATES = 2

Position = tuple[float, float]
ShapeKind = Literal["point", "line", "area"]


class GeometryPart(msgspec.Struct, frozen=True):
    """A point, a line, or an area with its holes."""

    kind: ShapeKind
    paths: list[list[Position]]


class MapFeature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature of a map. `properties` are raw JSON."""

    parts: list[GeometryPart]
    properties: Raw
    name: str = ""


class MapFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """The features to draw, and their total number."""

    drawn: list[MapFeature]
    total: int


def map_features(geojson: Raw) -> MapFeatures:
    """Return the features of any GeoJSON, up to a limit; a bare geometry is one feature."""
    given = _raw_features(geojson)
    drawn: list[MapFeature] = []
    left = MAX_POSITIONS
    for one in given[:MAX_FEATURES]:
        feature = _map_feature(one)
        left -= sum(len(path) for part in feature.parts for path in part.paths)
        if left < 0:
            break
        drawn.append(feature)
    return MapFeatures(drawn=drawn, total=len(given))


def _raw_features(geojson: Raw) -> list[Raw]:
    named = members(geojson)
    if raw_text(named.get("type", NULL)) == "FeatureCollection":
        return items(named.get("features", NULL))
    return [geojson] if named else []


def _map_feature(text: Raw) -> MapFeature:
    named = members(text)
    if raw_text(named.get("type", NULL)) != "Feature":
        return MapFeature(parts=list(_parts(_decoded(text), 0)), properties=NULL)
    properties = named.get("properties", NULL)
    known = {**({"id": named["id"]} if "id" in named else {}), **members(properties)}
    name = next((raw_text(known[key]) for key in _NAME_PROPERTIES if key in known), "")
    return MapFeature(parts=list(_parts(_decoded(named.get("geometry", NULL)), 0)), properties=properties, name=name)


def _decoded(text: Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _parts(geometry: Any, depth: int) -> Iterator[GeometryPart]:
    if not isinstance(geometry, dict) or depth > _MAX_NESTING:
        return
    kind, given = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for one in geometry["geometries"]:
            yield from _parts(one, depth + 1)
    elif kind == "Point":
        yield from (GeometryPart("point", [path]) for path in (_path([given]),) if path)
    elif kind == "MultiPoint":
        yield from (GeometryPart("point", [[place]]) for place in _path(given))
    elif kind in ("LineString", "MultiLineString"):
        yield from _lines([given] if kind == "LineString" else given)
    elif kind in ("Polygon", "MultiPolygon"):
        yield from _areas([given] if kind == "Polygon" else given)


def _lines(given: Any) -> Iterator[GeometryPart]:
    for line in given if isinstance(given, list) else []:
        if path := _path(line):
            yield GeometryPart("line", [path])


def _areas(given: Any) -> Iterator[GeometryPart]:
    for rings in given if isinstance(given, list) else []:
        paths = [path for ring in (rings if isinstance(rings, list) else []) if (path := _path(ring))]
        if paths:
            yield GeometryPart("area", paths)


def _path(given: Any) -> list[Position]:
    """Return the valid positions."""
    return [(float(one[0]), float(one[1])) for one in (given if isinstance(given, list) else []) if _is_position(one)]


def _is_position(given: Any) -> bool:
    return isinstance(given, list) and len(given) >= _MIN_COORDINATES and all(_finite(value) for value in given[:2])


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# -- labels ------------------------------------------------------------------------------------------------------------

#: Approximate width of a letter and height of a line, in units of the image.
_LETTER, _LINE = 6.8, 15.0
_GAP = 4.0
_MAX_LABELS = 40
_MAX_TEXT = 32
Anchor = Literal["start", "middle", "end"]


class MapLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A text in the image, and the end at which it is anchored."""

    x: float
    y: float
    anchor: Anchor
    text: str


class LabelBox(msgspec.Struct, frozen=True):
    """A part of the image."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "LabelBox") -> bool:
        """Whether both have a place in common."""
        return not (
            self.right <= other.left or other.right <= self.left or self.bottom <= other.top or other.bottom <= self.top
        )


class LabelPlacer:
    """Places labels one after the other where there is room."""

    def __init__(self, width: float, height: float) -> None:
        self._frame = LabelBox(0, 0, width, height)
        self._taken: list[LabelBox] = []
        self._left = _MAX_LABELS

    def block(self, x: float, y: float, radius: float) -> None:
        """Keep the place of a point free."""
        self._taken.append(LabelBox(x - radius, y - radius, x + radius, y + radius))

    def block_box(self, left: float, top: float, right: float, bottom: float) -> None:
        """Keep a part of the image free."""
        self._taken.append(LabelBox(left, top, right, bottom))

    def beside(self, x: float, y: float, radius: float, text: str) -> MapLabel | None:
        """Place a name to the right, left, above or below a point; None where there is no room."""
        off = radius + _GAP
        return self._first(
            text,
            [
                MapLabel(x=x + off, y=y + 4, anchor="start", text=text),
                MapLabel(x=x - off, y=y + 4, anchor="end", text=text),
                MapLabel(x=x, y=y - off, anchor="middle", text=text),
                MapLabel(x=x, y=y + off + 10, anchor="middle", text=text),
            ],
        )

    def on_line(self, x: float, y: float, text: str) -> MapLabel | None:
        """Place a name above a place of a line, or below it."""
        above, below = (MapLabel(x=x, y=y + dy, anchor="middle", text=text) for dy in (-_GAP, _LINE))
        return self._first(text, [above, below])

    def _first(self, text: str, places: list[MapLabel]) -> MapLabel | None:
        if not text or len(text) > _MAX_TEXT or self._left <= 0:
            return None
        for label in places:
            box = label_box(label)
            inside = (
                box.left >= self._frame.left
                and box.right <= self._frame.right
                and box.top >= self._frame.top
                and box.bottom <= self._frame.bottom
            )
            if inside and not any(box.meets(other) for other in self._taken):
                self._taken.append(box)
                self._left -= 1
                return label
        return None


def label_box(label: MapLabel) -> LabelBox:
    """Return the part of the image that a label takes, as far as letters are alike."""
    width = len(label.text) * _LETTER
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return LabelBox(left, label.y - _LINE + 3, left + width, label.y + 3)
