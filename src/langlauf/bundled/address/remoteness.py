"""Stage `remoteness`: how far the next cities are."""

from typing import Final

from .context import Context, Result, seen_from
from .geometry import distance_km
from .risk import level, scaled

# Size of the city, and the distance from which it counts as out of reach.
STEPS: Final = ((50_000, 50.0), (100_000, 100.0), (500_000, 300.0))


def remoteness(context: Context) -> Result:
    """The distance to the next city of 50,000, 100,000 and 500,000 people, the place itself included, as a score."""
    cities = [_next_city(context, size, far) for size, far in STEPS]
    score = round(sum(city["score"] for city in cities) / len(cities), 1)
    return {
        "score": score,
        "level": level(score),
        "formula": "mean of 100 x distance / limit, each at most 100; limits 50, 100 and 300 km",
        "cities": cities,
        "reasons": [_reason(city) for city in cities],
    }


def _next_city(context: Context, size: int, far: float) -> Result:
    gazetteer, place = context.gazetteer, context.place
    best: tuple[float, int] | None = None
    for index, other in enumerate(gazetteer.places):
        if other.population < size:
            break
        distance = distance_km(place.lat, place.lon, other.lat, other.lon)
        if best is None or distance < best[0]:
            best = distance, index
    found = seen_from(place, gazetteer.places[best[1]]) if best else None
    distance = best[0] if best else far
    return {"at_least": size, "limit_km": far, "score": scaled(distance, 0.0, far), "city": found}


def _reason(city: Result) -> str:
    found, size = city["city"], f"{city['at_least']:,}"
    if found is None:
        return f"The table lists no city of {size} people."
    if found["distance_km"] == 0:
        return f"The place itself has {size} people or more."
    return f"The next city of {size} people is {found['name']}, {found['distance_km']:g} km {found['direction']}."
