"""A map without tiles: the shapes of GeoJSON in a frame, with lines of equal degrees and a scale."""

import msgspec

from langlauf.ui.showing.geometry import Feature, Features, Kind, Part
from langlauf.ui.showing.projection import Bar, Line, Projection, projection_of
from langlauf.ui.showing.table import cut

_LONGEST_NAME = 80
#: Areas lie below lines, and points on top of both.
_ORDER: tuple[Kind, ...] = ("area", "line", "point")


class Drawing(msgspec.Struct, frozen=True):
    """One shape. A point has a position, anything else a path."""

    kind: Kind
    name: str
    path: str = ""
    x: float = 0.0
    y: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a map is made of."""

    drawings: list[Drawing]
    lines: list[Line]
    bar: Bar | None


def plan_of(features: Features) -> Plan | None:
    """A map of the features; None where none of them has a place."""
    parts = [(feature, part) for feature in features.drawn for part in feature.parts]
    projection = projection_of(place for _, part in parts for path in part.paths for place in path)
    if projection is None:
        return None
    drawings = [_drawing(projection, feature, part) for feature, part in parts]
    drawings.sort(key=lambda one: _ORDER.index(one.kind))
    return Plan(drawings=drawings, lines=projection.graticule(), bar=projection.bar())


def _drawing(projection: Projection, feature: Feature, part: Part) -> Drawing:
    name = cut(feature.name, _LONGEST_NAME)
    if part.kind == "point":
        x, y = projection.position(part.paths[0][0])
        return Drawing("point", name, x=x, y=y)
    return Drawing(part.kind, name, path="".join(_path(projection, path, part.kind) for path in part.paths))


def _path(projection: Projection, places: list[tuple[float, float]], kind: Kind) -> str:
    """A path in the words of SVG; positions that fall together are drawn once."""
    steps: list[str] = []
    for place in places:
        x, y = projection.position(place)
        step = f"{x:g} {y:g}"
        if not steps or steps[-1] != step:
            steps.append(step)
    return "M" + "L".join(steps) + ("Z" if kind == "area" else "")
