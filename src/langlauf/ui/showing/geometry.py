"""GeoJSON becomes shapes: points, lines and rings, whatever they were nested in."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from langlauf.ui.showing.written import NULL, items, members, text_of

MOST_FEATURES = 2_000
MOST_POSITIONS = 50_000
_DEEPEST = 8
_NAMES = ("name", "title", "label", "id")
_LEAST_POSITION = 2

Place = tuple[float, float]
Kind = Literal["point", "line", "area"]


class Part(msgspec.Struct, frozen=True):
    """A piece that is drawn at once: a point, a line, or an area with its holes."""

    kind: Kind
    paths: list[list[Place]]


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """Something on a map. `properties` are as they were written."""

    parts: list[Part]
    properties: Raw
    name: str = ""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What can be drawn, and how many there are in all."""

    drawn: list[Feature]
    total: int


def features_of(geojson: Raw) -> Features:
    """The features of any GeoJSON, as many as a page can draw; a geometry alone is one."""
    given = _given(geojson)
    drawn: list[Feature] = []
    left = MOST_POSITIONS
    for one in given[:MOST_FEATURES]:
        feature = _feature(one)
        left -= sum(len(path) for part in feature.parts for path in part.paths)
        if left < 0:
            break
        drawn.append(feature)
    return Features(drawn=drawn, total=len(given))


def _given(geojson: Raw) -> list[Raw]:
    named = members(geojson)
    if text_of(named.get("type", NULL)) == "FeatureCollection":
        return items(named.get("features", NULL))
    return [geojson] if named else []


def _feature(text: Raw) -> Feature:
    named = members(text)
    if text_of(named.get("type", NULL)) != "Feature":
        return Feature(parts=list(_parts(_decoded(text), 0)), properties=NULL)
    properties = named.get("properties", NULL)
    known = {**({"id": named["id"]} if "id" in named else {}), **members(properties)}
    name = next((text_of(known[key]) for key in _NAMES if key in known), "")
    return Feature(parts=list(_parts(_decoded(named.get("geometry", NULL)), 0)), properties=properties, name=name)


def _decoded(text: Raw) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _parts(geometry: Any, depth: int) -> Iterator[Part]:
    if not isinstance(geometry, dict) or depth > _DEEPEST:
        return
    kind, given = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for one in geometry["geometries"]:
            yield from _parts(one, depth + 1)
    elif kind == "Point":
        yield from (Part("point", [path]) for path in (_path([given]),) if path)
    elif kind == "MultiPoint":
        yield from (Part("point", [[place]]) for place in _path(given))
    elif kind in ("LineString", "MultiLineString"):
        yield from _lines([given] if kind == "LineString" else given)
    elif kind in ("Polygon", "MultiPolygon"):
        yield from _areas([given] if kind == "Polygon" else given)


def _lines(given: Any) -> Iterator[Part]:
    for line in given if isinstance(given, list) else []:
        if path := _path(line):
            yield Part("line", [path])


def _areas(given: Any) -> Iterator[Part]:
    for rings in given if isinstance(given, list) else []:
        paths = [path for ring in (rings if isinstance(rings, list) else []) if (path := _path(ring))]
        if paths:
            yield Part("area", paths)


def _path(given: Any) -> list[Place]:
    """The positions that are some."""
    return [(float(one[0]), float(one[1])) for one in (given if isinstance(given, list) else []) if _is_place(one)]


def _is_place(given: Any) -> bool:
    return isinstance(given, list) and len(given) >= _LEAST_POSITION and all(_finite(value) for value in given[:2])


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
