"""Points found by where they are, through cells of half a degree."""

from array import array
from collections.abc import Callable, Sequence
from math import ceil, cos, floor, radians
from typing import Final

from .geometry import KM_PER_DEGREE, distance_km

_PER_DEGREE: Final = 2
_COLUMNS: Final = 360 * _PER_DEGREE
_POLE: Final = 89.5
_RADII: Final = (10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0, 20100.0)


class Grid:
    """Points on the globe, looked up by distance; a point is known by its position in the sequence given."""

    __slots__ = ("_cells", "_points")

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._points = points
        self._cells: dict[int, array[int]] = {}
        for index, (lat, lon) in enumerate(points):
            self._cells.setdefault(_cell(_row(lat), _column(lon)), array("I")).append(index)

    def within(self, lat: float, lon: float, radius_km: float) -> list[tuple[float, int]]:
        """Every point at most `radius_km` away, as (distance, index), nearest first."""
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
        """The `count` nearest accepted points, as (distance, index), nearest first; fewer if the globe has fewer."""
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
