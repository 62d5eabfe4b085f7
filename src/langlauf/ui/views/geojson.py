"""GeoJSON as points, lines and areas."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from langlauf.ui.views.raw_json import NULL, items, members, raw_text

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
