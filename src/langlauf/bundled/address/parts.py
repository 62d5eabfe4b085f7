"""Which places of the gazetteer are probably parts of a larger one.

The table lists boroughs and quarters as places of their own and counts their people again in the city. It does not
say which is which, so two rules make a guess: a place is a part of a larger one in the same region if it lies inside
the area the larger one would cover at 8000 people per square kilometre, or if it lies within three times that area's
radius and its name begins with the larger one's.
"""

from collections.abc import Sequence
from math import pi, sqrt
from typing import Final, Protocol

from .grid import Grid

PEOPLE_PER_KM2: Final = 8000
SMALLEST_WHOLE: Final = 50_000
_NAME_REACH: Final = 3.0


class _Located(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def lat(self) -> float: ...
    @property
    def lon(self) -> float: ...
    @property
    def country(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def population(self) -> int: ...


def footprint_radius_km(population: int) -> float:
    """The radius of the circle that many people would fill at the assumed density."""
    return sqrt(population / (pi * PEOPLE_PER_KM2))


def find_parts(places: Sequence[_Located], grid: Grid) -> dict[int, int]:
    """For every probable part the index of its whole; `places` come largest first."""
    parts: dict[int, int] = {}
    for whole, place in enumerate(places):
        if place.population < SMALLEST_WHOLE:
            break
        if whole in parts:
            continue
        radius = footprint_radius_km(place.population)
        for distance, index in grid.within(place.lat, place.lon, radius * _NAME_REACH):
            if index > whole and index not in parts and _belongs(places[index], place, distance <= radius):
                parts[index] = whole
    return parts


def _belongs(small: _Located, large: _Located, inside: bool) -> bool:
    if small.country != large.country or small.region != large.region:
        return False
    name = small.name
    return inside or (name.startswith(large.name) and not name[len(large.name) : len(large.name) + 1].isalpha())
