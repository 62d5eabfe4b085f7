"""What the shape of a result suggests, where its analysis did not say how to show it."""

from itertools import islice

import msgspec
from msgspec import Raw

from langlauf.ui.showing.written import is_list, is_object, items, members, numbers, pointer_to, text_of

_GEOMETRIES = frozenset(
    {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
)
#: So many rows tell what a list holds.
_SAMPLE = 20
#: A list in a list of objects is looked for so deep.
_DEEPEST_LIST = 3
#: So many values are looked at for it, and a result larger than this, in bytes, is not looked into.
_MOST_LOOKED_AT = 2_000
_LARGEST = 8 * 1024 * 1024
_SHORTEST_SERIES = 2
_MOST_POINTS = 5_000


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a result something can be shown as more than JSON."""

    table_at: str | None = None
    map_at: str | None = None
    chart: Raw | None = None


def by_shape(payload: Raw) -> Shape:
    """GeoJSON is a map; x and y are a chart; the largest list of objects is a table."""
    if _length(payload) > _LARGEST and not is_list(payload):
        return Shape()
    named = members(payload)
    mapped = _map_at(payload, named)
    return Shape(map_at=mapped, chart=_series(named), table_at=None if mapped == "" else _table_at(payload, mapped))


def is_geojson(value: Raw) -> bool:
    """Whether it says so, and has what that asks for."""
    named = members(value)
    kind = text_of(named["type"]) if "type" in named else ""
    if kind == "FeatureCollection":
        return is_list(named.get("features", Raw(b"null")))
    if kind == "Feature":
        return "geometry" in named
    return kind in _GEOMETRIES and ("coordinates" in named or "geometries" in named)


def _map_at(payload: Raw, named: dict[str, Raw]) -> str | None:
    if is_geojson(payload):
        return ""
    few = islice(named.items(), _MOST_LOOKED_AT)
    found = [(_length(value), name) for name, value in few if is_object(value) and is_geojson(value)]
    return pointer_to((max(found)[1],)) if found else None


def _table_at(payload: Raw, elsewhere: str | None) -> str | None:
    """The longest list of objects, of those that are nearest to the top."""
    level: list[tuple[tuple[str, ...], Raw]] = [((), payload)]
    for _ in range(_DEEPEST_LIST):
        found = [(_length(value), path) for path, value in level if _is_table(value)]
        if found:
            return pointer_to(max(found)[1])
        inside = (
            ((*path, name), one)
            for path, value in level
            if is_object(value)
            for name, one in members(value).items()
            if pointer_to((*path, name)) != elsewhere
        )
        level = list(islice(inside, _MOST_LOOKED_AT))
    return None


def _is_table(value: Raw) -> bool:
    sample = items(value)[:_SAMPLE]
    return bool(sample) and all(is_object(one) for one in sample)


def _series(named: dict[str, Raw]) -> Raw | None:
    """A line over the points of `x` and `y`, where both are lists of as many numbers."""
    if not {"x", "y"} <= named.keys():
        return None
    across, up = items(named["x"]), items(named["y"])
    if len(across) != len(up) or not _SHORTEST_SERIES <= len(across) <= _MOST_POINTS:
        return None
    if not (numbers(across) and numbers(up)):
        return None
    values = [{"x": x, "y": y} for x, y in zip(across, up, strict=True)]
    encoding = {axis: {"field": axis, "type": "quantitative"} for axis in ("x", "y")}
    return Raw(msgspec.json.encode({"data": {"values": values}, "mark": "line", "encoding": encoding}))


def _length(value: Raw) -> int:
    return memoryview(value).nbytes
