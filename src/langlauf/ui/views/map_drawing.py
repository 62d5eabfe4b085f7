"""A map without tiles: the shapes of GeoJSON in a Mercator projection, with a graticule and a scale bar."""

import math
from collections.abc import Iterable

import msgspec

from langlauf.ui.views.geojson import GeometryPart, MapFeature, MapFeatures, Position, ShapeKind
from langlauf.ui.views.table import truncate

WIDTH, HEIGHT, MARGIN = 720.0, 420.0, 36.0
_MAX_LATITUDE = 85.0
_MAX_LONGITUDE = 360.0
_RIGHT_ANGLE = 90.0
#: Metres per degree at the equator.
_METRES_PER_DEGREE = 111_319.49
#: Minimum extent around a single point.
_MIN_SPAN_DEGREES, _MIN_SPAN_PLANE = 0.02, 100.0
_MAX_SCALE_BAR = 140.0
_ROUND_STEPS = (5, 2, 1)
_GRATICULE_LINES = 4
_KILOMETRE = 1_000


class ScaleBar(msgspec.Struct, frozen=True):
    """A scale bar: its width in the image, and its label."""

    width: float
    text: str


class GraticuleLine(msgspec.Struct, frozen=True):
    """A meridian or a parallel."""

    upright: bool
    at: float
    text: str


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """Maps positions to the image. `degrees` tells whether they are longitudes and latitudes."""

    degrees: bool
    west: float
    north: float
    east: float
    south: float
    #: image units per projected unit
    scale: float
    left: float
    top: float

    def position(self, place: Position) -> tuple[float, float]:
        """Return the image coordinates of a position."""
        x, y = place[0], self._up(place[1])
        return (
            round(self.left + (x - self.west) * self.scale, 1),
            round(self.top + (self._up(self.north) - y) * self.scale, 1),
        )

    def _up(self, value: float) -> float:
        return mercator(value) if self.degrees else value

    def bar(self) -> ScaleBar | None:
        """Return a scale bar with a round distance; None where the unit is unknown."""
        if not self.degrees:
            return None
        middle = math.radians((self.north + self.south) / 2)
        metres_per_unit = _METRES_PER_DEGREE * math.cos(middle) / self.scale
        metres = _round_down(_MAX_SCALE_BAR * metres_per_unit)
        text = f"{metres:g} m" if metres < _KILOMETRE else f"{metres / _KILOMETRE:g} km"
        return ScaleBar(round(metres / metres_per_unit, 1), text)

    def graticule(self) -> list[GraticuleLine]:
        """Return meridians and parallels at round degrees."""
        if not self.degrees:
            return []
        lines = []
        for upright, low, high in ((True, self.west, self.east), (False, self.south, self.north)):
            step = _round_down((high - low) / _GRATICULE_LINES * 2)
            number = math.ceil(low / step)
            while number * step <= high:
                value = number * step
                at = self.position((value, self.north) if upright else (self.west, value))
                lines.append(GraticuleLine(upright, at[0] if upright else at[1], _degrees_text(value, upright=upright)))
                number += 1
        return lines


def fit_projection(places: Iterable[Position]) -> Projection | None:
    """Return a projection that fits all positions into the image, or None without positions."""
    found = list(places)
    if not found:
        return None
    west, east = min(x for x, _ in found), max(x for x, _ in found)
    south, north = min(y for _, y in found), max(y for _, y in found)
    degrees = max(abs(west), abs(east)) <= _MAX_LONGITUDE and max(abs(south), abs(north)) <= _RIGHT_ANGLE
    if degrees:
        south, north = max(south, -_MAX_LATITUDE), min(north, _MAX_LATITUDE)
    least = _MIN_SPAN_DEGREES if degrees else _MIN_SPAN_PLANE
    west, east = _widened(west, east, least)
    south, north = _widened(south, north, least)
    up = mercator if degrees else float
    width, height = east - west, up(north) - up(south)
    scale = min((WIDTH - 2 * MARGIN) / width, (HEIGHT - 2 * MARGIN) / height)
    return Projection(
        degrees=degrees,
        west=west,
        north=north,
        east=east,
        south=south,
        scale=scale,
        left=(WIDTH - width * scale) / 2,
        top=(HEIGHT - height * scale) / 2,
    )


def mercator(latitude: float) -> float:
    """Return the Mercator ordinate of a latitude, in degrees of the equator."""
    bounded = math.radians(max(-_MAX_LATITUDE, min(_MAX_LATITUDE, latitude)))
    return math.degrees(math.log(math.tan(math.pi / 4 + bounded / 2)))


def _widened(low: float, high: float, least: float) -> tuple[float, float]:
    missing = max(0.0, least - (high - low)) / 2
    return low - missing, high + missing


def _round_down(value: float) -> float:
    """Round down to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((nice * power for nice in _ROUND_STEPS if nice * power <= value), power)


def _degrees_text(value: float, *, upright: bool) -> str:
    side = ("E" if value >= 0 else "W") if upright else ("N" if value >= 0 else "S")
    return f"{abs(round(value, 6)):g}° {side}"


_MAX_SHAPE_NAME = 80
#: Areas are drawn below lines, and points on top.
_DRAWING_ORDER: tuple[ShapeKind, ...] = ("area", "line", "point")


class MapShape(msgspec.Struct, frozen=True):
    """One shape. A point has coordinates, the others a path."""

    kind: ShapeKind
    name: str
    path: str = ""
    x: float = 0.0
    y: float = 0.0


class MapDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """Shapes, graticule and scale bar."""

    drawings: list[MapShape]
    lines: list[GraticuleLine]
    bar: ScaleBar | None


def map_drawing(features: MapFeatures) -> MapDrawing | None:
    """Return the drawing of the features, or None where none has a position."""
    parts = [(feature, part) for feature in features.drawn for part in feature.parts]
    projection = fit_projection(place for _, part in parts for path in part.paths for place in path)
    if projection is None:
        return None
    drawings = [_map_shape(projection, feature, part) for feature, part in parts]
    drawings.sort(key=lambda one: _DRAWING_ORDER.index(one.kind))
    return MapDrawing(drawings=drawings, lines=projection.graticule(), bar=projection.bar())


def _map_shape(projection: Projection, feature: MapFeature, part: GeometryPart) -> MapShape:
    name = truncate(feature.name, _MAX_SHAPE_NAME)
    if part.kind == "point":
        x, y = projection.position(part.paths[0][0])
        return MapShape("point", name, x=x, y=y)
    return MapShape(part.kind, name, path="".join(_svg_path(projection, path, part.kind) for path in part.paths))


def _svg_path(projection: Projection, places: list[tuple[float, float]], kind: ShapeKind) -> str:
    """Return an SVG path without repeated positions."""
    steps: list[str] = []
    for place in places:
        x, y = projection.position(place)
        step = f"{x:g} {y:g}"
        if not steps or steps[-1] != step:
            steps.append(step)
    return "M" + "L".join(steps) + ("Z" if kind == "area" else "")
