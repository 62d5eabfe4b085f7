"""Stage `accessibility`: how many people are within reach, near ones counting more."""

from math import exp
from typing import Final

from .context import Context, Result, brief
from .gazetteer import Gazetteer, Place

DECAY_KM: Final = 25.0
REACH_KM: Final = 150.0
_BENCHMARKS: Final = 20


def accessibility(context: Context) -> Result:
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


def potential(gazetteer: Gazetteer, place: Place) -> float:
    """The sum of people over all places within reach, each weighted by exp(-distance / 25 km)."""
    return sum(
        gazetteer.places[index].population * exp(-distance / DECAY_KM)
        for distance, index in gazetteer.grid.within(place.lat, place.lon, REACH_KM)
        if index not in gazetteer.parts
    )
