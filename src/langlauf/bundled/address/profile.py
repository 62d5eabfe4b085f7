"""Stage `profile`: the people around the place, by distance and by direction."""

from itertools import pairwise
from math import log
from typing import Final

from .context import Context, Result
from .geometry import COMPASS, bearing, compass

EDGES_KM: Final = (0, 5, 10, 25, 50, 100)
DIRECTIONS_KM: Final = 50.0


def profile(context: Context) -> Result:
    """People in rings up to 100 km and in the eight directions up to 50 km, and how evenly the directions share."""
    gazetteer, place = context.gazetteer, context.place
    around = [
        (distance, gazetteer.places[index])
        for distance, index in gazetteer.grid.within(place.lat, place.lon, EDGES_KM[-1])
        if index not in gazetteer.parts
    ]
    rings: list[Result] = []
    for inner, outer in pairwise(EDGES_KM):
        inside = [other for distance, other in around if inner < distance <= outer or (inner == distance == 0)]
        people = sum(other.population for other in inside)
        rings.append({"from_km": inner, "to_km": outer, "people": people, "places": len(inside)})
    directions = dict.fromkeys(COMPASS, 0)
    for distance, other in around:
        if 0 < distance <= DIRECTIONS_KM:
            directions[compass(bearing(place.lat, place.lon, other.lat, other.lon))] += other.population
    heaviest = max(COMPASS, key=lambda direction: directions[direction]) if any(directions.values()) else None
    return {
        "rings": rings,
        "directions": [{"direction": direction, "people": directions[direction]} for direction in COMPASS],
        "directions_radius_km": int(DIRECTIONS_KM),
        "heaviest_direction": heaviest,
        "evenness": evenness(list(directions.values())),
    }


def evenness(people: list[int]) -> float | None:
    """How evenly people are shared: entropy over its greatest value, 1 for even and 0 for all in one; None for none."""
    total = sum(people)
    if not total:
        return None
    shares = [count / total for count in people if count]
    return round(abs(sum(share * log(share) for share in shares)) / log(len(people)), 3)
