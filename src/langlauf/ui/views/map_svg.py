"""A map without tiles: the shapes of GeoJSON in a Mercator projection, with names, a graticule and a scale."""

import math
from collections.abc import Iterable

import msgspec

from langlauf.ui.views.map_shapes import (
    Anchor,
    GeometryPart,
    LabelPlacer,
    MapFeature,
    MapFeatures,
    MapLabel,
    Position,
    ShapeKind,
)
from langlauf.ui.views.raw_json import is_number, members, raw_text
from langlauf.ui.views.table import truncate

WIDTH, HEIGHT, MARGIN = 960.0, 480.0, 44.0
#: Of a phone, where a scaled image would be too small to read.
NARROW_WIDTH, NARROW_HEIGHT = 400.0, 400.0
#: With more features only one image is drawn.
MAX_DRAWN_TWICE = 500
#: More points than this cannot be stepped through; the list below the map has them.
MAX_FOCUSABLE = 60
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
    #: the size of the image
    width: float = WIDTH
    height: float = HEIGHT

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


def fit_projection(places: Iterable[Position], width: float = WIDTH, height: float = HEIGHT) -> Projection | None:
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
    across, upward = east - west, up(north) - up(south)
    scale = min((width - 2 * MARGIN) / across, (height - 2 * MARGIN) / upward)
    return Projection(
        degrees=degrees,
        west=west,
        north=north,
        east=east,
        south=south,
        scale=scale,
        left=(width - across * scale) / 2,
        top=(height - upward * scale) / 2,
        width=width,
        height=height,
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
#: Radii of points: of one without a size, and the smallest and the largest of those with one.
_PLAIN_RADIUS, _MIN_RADIUS, _MAX_RADIUS = 5.0, 3.5, 16.0
#: Areas are drawn below lines, and points on top.
_DRAWING_ORDER: tuple[ShapeKind, ...] = ("area", "line", "point")


class MapShape(msgspec.Struct, frozen=True, kw_only=True):
    """One shape. A point has coordinates and a radius, the others a path."""

    kind: ShapeKind
    name: str
    path: str = ""
    x: float = 0.0
    y: float = 0.0
    radius: float = 5.0
    main: bool = False
    #: the value that its size stands for
    value: str = ""
    #: where its name always stands; None where there is no room, then it shows on hover and focus
    label: MapLabel | None = None
    #: where its name shows on hover and focus
    tip: MapLabel | None = None


class MapDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """Shapes, graticule and scale bar."""

    drawings: list[MapShape]
    lines: list[GraticuleLine]
    bar: ScaleBar | None
    width: float = WIDTH
    height: float = HEIGHT
    #: the largest value that a size stands for, as JSON
    most: str = ""

    @property
    def main(self) -> MapShape | None:
        """The main point."""
        return next((one for one in self.drawings if one.main), None)

    @property
    def points(self) -> int:
        """How many points it has."""
        return sum(one.kind == "point" for one in self.drawings)


class MapStyle(msgspec.Struct, frozen=True, kw_only=True):
    """What an analysis said about its map: the name of its main feature, and the property that sizes points."""

    main: str = ""
    size: str = ""


NO_STYLE = MapStyle()


def map_drawing(features: MapFeatures, style: MapStyle = NO_STYLE, *, narrow: bool = False) -> MapDrawing | None:
    """Return the drawing of the features, or None where none has a position."""
    width, height = (NARROW_WIDTH, NARROW_HEIGHT) if narrow else (WIDTH, HEIGHT)
    parts = [(feature, part) for feature in features.drawn for part in feature.parts]
    projection = fit_projection((place for _, part in parts for path in part.paths for place in path), width, height)
    if projection is None:
        return None
    values = {id(feature): _size_value(feature, style) for feature, _ in parts}
    largest = max((value for value, _ in values.values()), default=0.0)
    main = next((id(part) for feature, part in parts if part.kind == "point" and feature.name == style.main), None)
    shapes = [
        _map_shape(projection, feature, part, values[id(feature)], largest, main=bool(style.main) and id(part) == main)
        for feature, part in parts
    ]
    most = max(values.values(), default=(0.0, ""))[1]
    lines, bar = projection.graticule(), projection.bar()
    shapes = _labelled(shapes, projection, bar)
    shapes.sort(key=lambda one: (_DRAWING_ORDER.index(one.kind), one.main, -one.radius))
    return MapDrawing(drawings=shapes, lines=lines, bar=bar, width=width, height=height, most=most)


def _size_value(feature: MapFeature, style: MapStyle) -> tuple[float, str]:
    """Return the value that sizes a feature, as a number and as it is written."""
    given = members(feature.properties).get(style.size) if style.size else None
    if given is None or not is_number(given):
        return 0.0, ""
    return max(0.0, float(raw_text(given))), raw_text(given)


def _map_shape(
    projection: Projection,
    feature: MapFeature,
    part: GeometryPart,
    value: tuple[float, str],
    largest: float,
    *,
    main: bool,
) -> MapShape:
    name = truncate(feature.name, _MAX_SHAPE_NAME)
    if part.kind == "point":
        x, y = projection.position(part.paths[0][0])
        share = math.sqrt(min(value[0], largest) / largest) if largest else 0.0
        radius = round(_MIN_RADIUS + (_MAX_RADIUS - _MIN_RADIUS) * share, 1) if largest else _PLAIN_RADIUS
        radius = max(radius, _PLAIN_RADIUS + 2) if main else radius
        return MapShape(kind="point", name=name, x=x, y=y, radius=radius, main=main, value=value[1])
    path = "".join(_svg_path(projection, path, part.kind) for path in part.paths)
    x, y = min((projection.position(place) for place in part.paths[0]), key=lambda at: at[1])
    return MapShape(kind=part.kind, name=name, path=path, x=x, y=y)


def _labelled(shapes: list[MapShape], projection: Projection, bar: ScaleBar | None) -> list[MapShape]:
    """Return the shapes with labels: the main point first, then larger ones, then lines."""
    placer = LabelPlacer(projection.width, projection.height)
    if bar is not None:
        placer.block_box(projection.width - bar.width - 30, 0, projection.width, 34)
    for shape in shapes:
        if shape.kind == "point":
            placer.block(shape.x, shape.y, shape.radius)
    order = sorted(
        range(len(shapes)), key=lambda at: (not shapes[at].main, shapes[at].kind != "line", -shapes[at].radius)
    )
    made = list(shapes)
    for at in order:
        shape = shapes[at]
        label = (
            placer.beside(shape.x, shape.y, shape.radius, shape.name)
            if shape.kind == "point"
            else placer.on_line(shape.x, shape.y, shape.name)
            if shape.kind == "line"
            else None
        )
        made[at] = msgspec.structs.replace(shape, label=label, tip=_tip(shape, projection))
    return made


def _tip(shape: MapShape, projection: Projection) -> MapLabel:
    """Return where the whole name of a point shows on hover: above it, within the image."""
    third = projection.width / 3
    anchor: Anchor = "start" if shape.x < third else "end" if shape.x > 2 * third else "middle"
    return MapLabel(x=shape.x, y=max(14.0, shape.y - shape.radius - 8), anchor=anchor, text=shape.name)


def _svg_path(projection: Projection, places: list[tuple[float, float]], kind: ShapeKind) -> str:
    """Return an SVG path without repeated positions."""
    steps: list[str] = []
    for place in places:
        x, y = projection.position(place)
        step = f"{x:g} {y:g}"
        if not steps or steps[-1] != step:
            steps.append(step)
    return "M" + "L".join(steps) + ("Z" if kind == "area" else "")
