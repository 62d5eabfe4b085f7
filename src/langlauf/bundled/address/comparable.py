"""Stage `comparable`: places of about the same size, at home and abroad."""

from collections.abc import Iterable
from math import log
from typing import Final

from .context import Context, Result, seen_from
from .gazetteer import Place

_AT_HOME: Final = 5
_ABROAD: Final = 5
_WINDOW: Final = 400


def comparable(context: Context) -> Result:
    """The places closest in population: five in the country, and five abroad with at most one per country."""
    gazetteer, place, index = context.gazetteer, context.place, context.index
    home = [gazetteer.places[at] for at in gazetteer.independent(gazetteer.by_country[place.country]) if at != index]
    # Places come by size, so those of like size stand next to this one.
    window = range(max(0, index - _WINDOW), min(len(gazetteer.places), index + _WINDOW + 1))
    abroad = [gazetteer.places[at] for at in gazetteer.independent(window)]
    return {
        "in_country": [_compare(place, other) for other in _closest(place, home)[:_AT_HOME]],
        "abroad": [_compare(place, other) for other in _one_per_country(place, _closest(place, abroad))[:_ABROAD]],
    }


def _closest(place: Place, others: Iterable[Place]) -> list[Place]:
    def difference(other: Place) -> tuple[float, int]:
        return abs(log((other.population + 1) / (place.population + 1))), other.id

    return sorted(others, key=difference)


def _one_per_country(place: Place, others: list[Place]) -> list[Place]:
    first: dict[str, Place] = {}
    for other in others:
        if other.country != place.country:
            first.setdefault(other.country, other)
    return list(first.values())


def _compare(place: Place, other: Place) -> Result:
    ratio = round(other.population / place.population, 3) if place.population else None
    return seen_from(place, other) | {"size_ratio": ratio}
