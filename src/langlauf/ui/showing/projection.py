"""Places become positions in a picture: Mercator for degrees, as they are for plane coordinates."""

import math
from collections.abc import Iterable

import msgspec

from langlauf.ui.showing.geometry import Place

WIDTH, HEIGHT, MARGIN = 720.0, 420.0, 36.0
_FARTHEST_NORTH = 85.0
_FARTHEST_EAST = 360.0
_RIGHT_ANGLE = 90.0
#: Metres around the equator, by degree.
_METRES_PER_DEGREE = 111_319.49
#: A single point gets so much around it, as part of its projection's unit.
_LEAST_SPAN_DEGREES, _LEAST_SPAN_PLANE = 0.02, 100.0
_LONGEST_BAR = 140.0
_NICE = (5, 2, 1)
_LINES = 4
_KILOMETRE = 1_000


class Bar(msgspec.Struct, frozen=True):
    """A scale: how long it is in the picture, and what that stands for."""

    width: float
    text: str


class Line(msgspec.Struct, frozen=True):
    """A line of equal longitude or latitude."""

    upright: bool
    at: float
    text: str


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """From a place to a position. `degrees` says whether places are longitudes and latitudes."""

    degrees: bool
    west: float
    north: float
    east: float
    south: float
    #: picture units for one projected unit
    scale: float
    left: float
    top: float

    def position(self, place: Place) -> tuple[float, float]:
        """Where a place is in the picture."""
        x, y = place[0], self._up(place[1])
        return (
            round(self.left + (x - self.west) * self.scale, 1),
            round(self.top + (self._up(self.north) - y) * self.scale, 1),
        )

    def _up(self, value: float) -> float:
        return mercator(value) if self.degrees else value

    def bar(self) -> Bar | None:
        """A round distance in the middle of the map; none where nobody knows what a unit is."""
        if not self.degrees:
            return None
        middle = math.radians((self.north + self.south) / 2)
        metres_per_unit = _METRES_PER_DEGREE * math.cos(middle) / self.scale
        metres = _round_number(_LONGEST_BAR * metres_per_unit)
        text = f"{metres:g} m" if metres < _KILOMETRE else f"{metres / _KILOMETRE:g} km"
        return Bar(round(metres / metres_per_unit, 1), text)

    def graticule(self) -> list[Line]:
        """Lines at round degrees."""
        if not self.degrees:
            return []
        lines = []
        for upright, low, high in ((True, self.west, self.east), (False, self.south, self.north)):
            step = _round_number((high - low) / _LINES * 2)
            number = math.ceil(low / step)
            while number * step <= high:
                value = number * step
                at = self.position((value, self.north) if upright else (self.west, value))
                lines.append(Line(upright, at[0] if upright else at[1], _degrees(value, upright=upright)))
                number += 1
        return lines


def projection_of(places: Iterable[Place]) -> Projection | None:
    """One that fits all places into the picture; None where there are none."""
    found = list(places)
    if not found:
        return None
    west, east = min(x for x, _ in found), max(x for x, _ in found)
    south, north = min(y for _, y in found), max(y for _, y in found)
    degrees = max(abs(west), abs(east)) <= _FARTHEST_EAST and max(abs(south), abs(north)) <= _RIGHT_ANGLE
    if degrees:
        south, north = max(south, -_FARTHEST_NORTH), min(north, _FARTHEST_NORTH)
    least = _LEAST_SPAN_DEGREES if degrees else _LEAST_SPAN_PLANE
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
    """How far from the equator, in degrees of it."""
    bounded = math.radians(max(-_FARTHEST_NORTH, min(_FARTHEST_NORTH, latitude)))
    return math.degrees(math.log(math.tan(math.pi / 4 + bounded / 2)))


def _widened(low: float, high: float, least: float) -> tuple[float, float]:
    missing = max(0.0, least - (high - low)) / 2
    return low - missing, high + missing


def _round_number(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not larger."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((nice * power for nice in _NICE if nice * power <= value), power)


def _degrees(value: float, *, upright: bool) -> str:
    side = ("E" if value >= 0 else "W") if upright else ("N" if value >= 0 else "S")
    return f"{abs(round(value, 6)):g}° {side}"
