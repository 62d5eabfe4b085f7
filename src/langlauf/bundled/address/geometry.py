"""Distances and directions on the globe."""

from array import array
from collections.abc import Callable, Sequence
from math import asin, atan2, ceil, cos, degrees, floor, pi, radians, sin, sqrt
from typing import Final

EARTH_RADIUS_KM: Final = 6371.0088
KM_PER_DEGREE: Final = 111.195
COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def distance_km(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """Return the great-circle distance between two points (haversine formula, mean earth radius)."""
    phi_a, phi_b = radians(lat_a), radians(lat_b)
    half_lat = sin((phi_b - phi_a) / 2)
    half_lon = sin(radians(lon_b - lon_a) / 2)
    chord = half_lat * half_lat + cos(phi_a) * cos(phi_b) * half_lon * half_lon
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, chord)))


def bearing(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """Return the initial direction from the first point to the second, in degrees from north, 0 to under 360."""
    phi_a, phi_b, turn = radians(lat_a), radians(lat_b), radians(lon_b - lon_a)
    east = sin(turn) * cos(phi_b)
    north = cos(phi_a) * sin(phi_b) - sin(phi_a) * cos(phi_b) * cos(turn)
    return degrees(atan2(east, north)) % 360


def compass(direction: float) -> str:
    """Return the eighth of the compass a direction in degrees falls in."""
    return COMPASS[int((direction + 22.5) // 45) % 8]


def ring(lat: float, lon: float, radius_km: float, corners: int = 72) -> list[tuple[float, float]] | None:
    """Return a closed circle of (longitude, latitude), or None if it would cross a pole or the date line."""
    phi, reach = radians(lat), radius_km / EARTH_RADIUS_KM
    if abs(phi) + reach >= pi / 2:
        return None
    points = []
    for corner in range(corners):
        turn = 2 * pi * corner / corners
        at = asin(sin(phi) * cos(reach) + cos(phi) * sin(reach) * cos(turn))
        east = atan2(sin(turn) * sin(reach) * cos(phi), cos(reach) - sin(phi) * sin(at))
        points.append((round(lon + degrees(east), 5), round(degrees(at), 5)))
    return [*points, points[0]] if all(-180 <= point[0] <= 180 for point in points) else None  # noqa: PLR2004


def mean_centre(points: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the weighted centre of (latitude, longitude, weight) points on the globe; nothing without weight."""
    x = y = z = 0.0
    for lat, lon, weight in points:
        phi, lam = radians(lat), radians(lon)
        x += weight * cos(phi) * cos(lam)
        y += weight * cos(phi) * sin(lam)
        z += weight * sin(phi)
    if x == y == z == 0.0:
        return None
    return degrees(atan2(z, sqrt(x * x + y * y))), degrees(atan2(y, x))


_PER_DEGREE: Final = 2
_COLUMNS: Final = 360 * _PER_DEGREE
_POLE: Final = 89.5
_RADII: Final = (10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0, 20100.0)


class SpatialIndex:
    """Points on the globe, looked up by distance; a point is known by its position in the sequence given."""

    __slots__ = ("_cells", "_points")

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._points = points
        self._cells: dict[int, array[int]] = {}
        for index, (lat, lon) in enumerate(points):
            self._cells.setdefault(_cell(_row(lat), _column(lon)), array("I")).append(index)

    def within(self, lat: float, lon: float, radius_km: float) -> list[tuple[float, int]]:
        """Return every point at most `radius_km` away, as (distance, index), nearest first."""
        span = radius_km / KM_PER_DEGREE
        found: list[tuple[float, int]] = []
        for cell in self._cells_around(lat, lon, span):
            for index in self._cells.get(cell, ()):
                point = self._points[index]
                if abs(point[0] - lat) <= span:
                    distance = distance_km(lat, lon, *point)
                    if distance <= radius_km:
                        found.append((distance, index))
        found.sort()
        return found

    def nearest(self, lat: float, lon: float, count: int, accept: Callable[[int], bool]) -> list[tuple[float, int]]:
        """Return the `count` nearest accepted points as (distance, index), nearest first; fewer if there are fewer."""
        found: list[tuple[float, int]] = []
        for radius in _RADII:
            found = [hit for hit in self.within(lat, lon, radius) if accept(hit[1])]
            if len(found) >= count:
                break
        return found[:count]

    def _cells_around(self, lat: float, lon: float, span: float) -> list[int]:
        rows = range(_row(max(-90.0, lat - span)), _row(min(90.0, lat + span)) + 1)
        edge = abs(lat) + span
        if edge >= _POLE:
            return [_cell(row, column) for row in rows for column in range(_COLUMNS)]
        # The circle is widest in degrees of longitude on its poleward side.
        reach = min(_COLUMNS // 2, ceil(span / cos(radians(edge)) * _PER_DEGREE))
        middle = _column(lon)
        columns = {(middle + step) % _COLUMNS for step in range(-reach, reach + 1)}
        return [_cell(row, column) for row in rows for column in columns]


def _row(lat: float) -> int:
    return floor((lat + 90) * _PER_DEGREE)


def _column(lon: float) -> int:
    return floor((lon + 180) * _PER_DEGREE) % _COLUMNS


def _cell(row: int, column: int) -> int:
    return row * _COLUMNS + column
