"""Stage `profile`: the people around the place, by distance and by direction."""

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from math import acos, cos, degrees, exp, log, radians, sin
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from langlauf.bundled.address.gazetteer import COMPASS, Gazetteer, GazetteerPlace, bearing, compass
from langlauf.bundled.address.stages import StageContext, StageResult, brief, brief_from
from langlauf.bundled.address.text import script_of

EDGES_KM: Final = (0, 5, 10, 25, 50, 100)
DIRECTIONS_KM: Final = 50.0


def profile(context: StageContext) -> StageResult:
    """Return people in rings up to 100 km and in eight directions up to 50 km, and how evenly they are spread."""
    gazetteer, place = context.gazetteer, context.place
    around = [
        (distance, gazetteer.places[index])
        for distance, index in gazetteer.grid.within(place.lat, place.lon, EDGES_KM[-1])
        if index not in gazetteer.parts
    ]
    rings: list[StageResult] = []
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
    """Return entropy over its maximum: 1 for an even spread, 0 for all in one; None without people."""
    total = sum(people)
    if not total:
        return None
    shares = [count / total for count in people if count]
    return round(abs(sum(share * log(share) for share in shares)) / log(len(people)), 3)


_AT_HOME: Final = 5
_ABROAD: Final = 5
_WINDOW: Final = 400


def comparable(context: StageContext) -> StageResult:
    """Return the places closest in population: five in the country, and five abroad with at most one per country."""
    gazetteer, place, index = context.gazetteer, context.place, context.index
    home = [gazetteer.places[at] for at in gazetteer.independent(gazetteer.by_country[place.country]) if at != index]
    # Places come by size, so those of like size stand next to this one.
    window = range(max(0, index - _WINDOW), min(len(gazetteer.places), index + _WINDOW + 1))
    abroad = [gazetteer.places[at] for at in gazetteer.independent(window)]
    return {
        "in_country": [_compare(place, other) for other in _closest(place, home)[:_AT_HOME]],
        "abroad": [_compare(place, other) for other in _one_per_country(place, _closest(place, abroad))[:_ABROAD]],
    }


def _closest(place: GazetteerPlace, others: Iterable[GazetteerPlace]) -> list[GazetteerPlace]:
    def difference(other: GazetteerPlace) -> tuple[float, int]:
        return abs(log((other.population + 1) / (place.population + 1))), other.id

    return sorted(others, key=difference)


def _one_per_country(place: GazetteerPlace, others: list[GazetteerPlace]) -> list[GazetteerPlace]:
    first: dict[str, GazetteerPlace] = {}
    for other in others:
        if other.country != place.country:
            first.setdefault(other.country, other)
    return list(first.values())


def _compare(place: GazetteerPlace, other: GazetteerPlace) -> StageResult:
    ratio = round(other.population / place.population, 3) if place.population else None
    return brief_from(place, other) | {"size_ratio": ratio}


DECAY_KM: Final = 25.0
REACH_KM: Final = 150.0
_BENCHMARKS: Final = 20


def accessibility(context: StageContext) -> StageResult:
    """Hansen's potential of the place, and where it stands among the twenty largest places of the country."""
    gazetteer, place, index = context.gazetteer, context.place, context.index
    own = potential(gazetteer, place)
    largest = gazetteer.independent(gazetteer.by_country[place.country])[:_BENCHMARKS]
    compared = {at: potential(gazetteer, gazetteer.places[at]) for at in largest if at != index}
    best = max(compared, key=lambda at: (compared[at], -at), default=None)
    highest = max([own, *compared.values()])
    return {
        "potential": round(own),
        "own_share": round(place.population / own, 3) if own else None,
        "index": round(100 * own / highest, 1) if highest else None,
        "rank_among_largest": {"rank": 1 + sum(value > own for value in compared.values()), "of": len(compared) + 1},
        "best_compared": brief(gazetteer.places[best]) | {"potential": round(compared[best])}
        if best is not None
        else None,
        "decay_km": DECAY_KM,
        "reach_km": REACH_KM,
    }


def potential(gazetteer: Gazetteer, place: GazetteerPlace) -> float:
    """Return the sum of people over all places within reach, each weighted by exp(-distance / 25 km)."""
    return sum(
        gazetteer.places[index].population * exp(-distance / DECAY_KM)
        for distance, index in gazetteer.grid.within(place.lat, place.lon, REACH_KM)
        if index not in gazetteer.parts
    )


TILT: Final = 23.44
# The sun's upper edge is seen on the horizon when its centre is this far below, by refraction and its size.
_HORIZON: Final = -0.833
_REFERENCE_YEAR: Final = 2025
_DAYS: Final = {"march_equinox": 0.0, "june_solstice": TILT, "september_equinox": 0.0, "december_solstice": -TILT}


def sun_and_time(context: StageContext) -> StageResult:
    """Return the time zone, the clock's distance from solar time, and daylight and noon height on four days."""
    place = context.place
    offset = utc_offset_hours(place.timezone, month=1), utc_offset_hours(place.timezone, month=7)
    solar = round(place.lon * 4 / 60, 2)
    standard = None if offset[0] is None or offset[1] is None else min(offset[0], offset[1])
    return {
        "timezone": place.timezone or None,
        "utc_offset_hours": {"january": offset[0], "july": offset[1], "year": _REFERENCE_YEAR},
        "clock_changes": None if standard is None else offset[0] != offset[1],
        "solar_offset_hours": solar,
        "clock_ahead_of_sun_minutes": None if standard is None else round((standard - solar) * 60),
        "days": [
            {
                "day": day,
                "daylight_hours": round(daylight_hours(place.lat, declination), 2),
                "noon_height_degrees": round(90 - abs(place.lat - declination), 1),
            }
            for day, declination in _DAYS.items()
        ],
    }


def daylight_hours(latitude: float, declination: float) -> float:
    """Return the hours from sunrise to sunset at a latitude and a solar declination; 0 or 24 near the poles."""
    phi, delta = radians(latitude), radians(declination)
    if abs(cos(phi)) < 1e-9:  # noqa: PLR2004
        return 24.0 if latitude * declination > 0 else 12.0 if declination == 0 else 0.0
    edge = (sin(radians(_HORIZON)) - sin(phi) * sin(delta)) / (cos(phi) * cos(delta))
    return degrees(acos(max(-1.0, min(1.0, edge)))) * 2 / 15


def utc_offset_hours(timezone: str, *, month: int) -> float | None:
    """Return the UTC offset of a zone in mid-month of the reference year; None without data for the zone."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    offset = datetime(_REFERENCE_YEAR, month, 15, 12, tzinfo=zone).utcoffset()
    return None if offset is None else round(offset.total_seconds() / 3600, 2)


_SHOWN: Final = 12


def names(context: StageContext) -> StageResult:
    """Return the number of names of the place, and some of them in every script, in the gazetteer's order."""
    place = context.place
    by_script: dict[str, list[str]] = {}
    for name in place.other_names:
        by_script.setdefault(script_of(name), []).append(name)
    groups = sorted(by_script.items(), key=lambda group: (-len(group[1]), group[0]))
    return {
        "name": place.name,
        "other_names": sum(map(len, by_script.values())),
        "scripts": [{"script": script, "count": len(written), "names": written[:_SHOWN]} for script, written in groups],
    }
