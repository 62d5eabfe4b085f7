"""What the stages of the mode `risk` share: scores from 0 to 100, and the words for them."""

from typing import Any, Final

from langlauf.bundled.address.data import countries
from langlauf.bundled.address.extended_stages import TILT, daylight_hours
from langlauf.bundled.address.gazetteer import distance_km
from langlauf.bundled.address.stages import StageContext, StageResult, brief_from

LEVELS: Final = ((25.0, "low"), (50.0, "moderate"), (75.0, "elevated"), (100.0, "high"))


def scaled(value: float, best: float, worst: float) -> float:
    """Return a figure as a score: 0 at `best`, 100 at `worst`, straight in between and never beyond."""
    return round(100 * max(0.0, min(1.0, (value - best) / (worst - best))), 1)


def level(score: float) -> str:
    """Return the word for a score: low under 25, moderate under 50, elevated under 75, high from there on."""
    return next((word for bound, word in LEVELS if score < bound), LEVELS[-1][1])


def ambiguity(context: StageContext) -> StageResult:
    """Return a score of 0 for a match that leaves no doubt, 100 for a guess."""
    located = context.results["locate"]
    match = located["match"]
    score = scaled(1 - match["confidence"], 0.0, 1.0)
    return {
        "score": score,
        "level": level(score),
        "formula": "100 x (1 - confidence of the match)",
        "confidence": match["confidence"],
        "margin": match["margin"],
        "places_of_this_name": located["places_of_this_name"],
        "reasons": _reasons(located),
    }


def _reasons(located: dict[str, Any]) -> list[str]:
    place, match = located["place"], located["match"]
    reasons = [f"{place['name']} was found by {match['found_by']}, from the words `{match['words']}`."]
    others = located["places_of_this_name"] - 1
    if others > 0:
        reasons.append(f"The table lists {others} more {'place' if others == 1 else 'places'} with this name.")
    if located["alternatives"]:
        rival = located["alternatives"][0]
        reasons.append(
            f"The next best reading is {rival['name']} ({rival['country']}), {match['margin']:g} points behind."
        )
    else:
        reasons.append("No other place of the table fits the words.")
    return reasons


# Size of the city, and the distance from which it counts as out of reach.
STEPS: Final = ((50_000, 50.0), (100_000, 100.0), (500_000, 300.0))


def remoteness(context: StageContext) -> StageResult:
    """Score the distance to the next city of 50,000, 100,000 and 500,000 people, the place itself included."""
    cities = [_next_city(context, size, far) for size, far in STEPS]
    score = round(sum(city["score"] for city in cities) / len(cities), 1)
    return {
        "score": score,
        "level": level(score),
        "formula": "mean of 100 x distance / limit, each at most 100; limits 50, 100 and 300 km",
        "cities": cities,
        "reasons": [_reason(city) for city in cities],
    }


def _next_city(context: StageContext, size: int, far: float) -> StageResult:
    gazetteer, place = context.gazetteer, context.place
    best: tuple[float, int] | None = None
    for index, other in enumerate(gazetteer.places):
        if other.population < size:
            break
        distance = distance_km(place.lat, place.lon, other.lat, other.lon)
        if best is None or distance < best[0]:
            best = distance, index
    found = brief_from(place, gazetteer.places[best[1]]) if best else None
    distance = best[0] if best else far
    return {"at_least": size, "limit_km": far, "score": scaled(distance, 0.0, far), "city": found}


def _reason(city: StageResult) -> str:
    found, size = city["city"], f"{city['at_least']:,}"
    if found is None:
        return f"The table lists no city of {size} people."
    if found["distance_km"] == 0:
        return f"The place itself has {size} people or more."
    return f"The next city of {size} people is {found['name']}, {found['distance_km']:g} km {found['direction']}."


RADIUS_KM: Final = 50.0
_EVEN, _ALL = 0.2, 1.0


def concentration(context: StageContext) -> StageResult:
    """Score the share of the people within 50 km in the largest place there; with the Herfindahl index of all."""
    gazetteer, place = context.gazetteer, context.place
    around = gazetteer.independent(index for _, index in gazetteer.grid.within(place.lat, place.lon, RADIUS_KM))
    people = [gazetteer.places[index].population for index in around]
    total = sum(people)
    # A smaller index is a larger place.
    centre = gazetteer.places[min(around)] if around else place
    share = centre.population / total if total else 1.0
    score = scaled(share, _EVEN, _ALL)
    reason = (
        f"{centre.name} has {share:.0%} of the {total:,} people the table lists within {RADIUS_KM:.0f} km."
        if total
        else f"The table lists no people within {RADIUS_KM:.0f} km, so there is nothing to spread a dependence on."
    )
    return {
        "score": score,
        "level": level(score),
        "formula": "100 x (share of the largest place - 0.2) / 0.8, from 0 to 100",
        "radius_km": int(RADIUS_KM),
        "people": total,
        "places": len(around),
        "largest": brief_from(place, centre),
        "largest_share": round(share, 3),
        "herfindahl": round(sum((count / total) ** 2 for count in people), 3) if total else None,
        "reasons": [reason],
    }


FAR_KM: Final = 50.0
_FORMULA: Final = "100 x (1 - distance to the nearest foreign place / 50 km), at least 0"


def border(context: StageContext) -> StageResult:
    """Return the nearest foreign place as a score: 100 next door, 0 from 50 km on. It is exposure, not danger."""
    gazetteer, place = context.gazetteer, context.place
    found = gazetteer.grid.nearest(
        place.lat, place.lon, 1, lambda index: gazetteer.places[index].country != place.country
    )
    if not found:
        return {
            "score": 0.0,
            "level": level(0.0),
            "formula": _FORMULA,
            "nearest_foreign": None,
            "foreign_countries_within_limit": [],
            "reasons": ["The table lists no place in another country."],
        }
    nearest = brief_from(place, gazetteer.places[found[0][1]])
    score = round(100 - scaled(found[0][0], 0.0, FAR_KM), 1)
    inside = gazetteer.grid.within(place.lat, place.lon, FAR_KM)
    codes = sorted({gazetteer.places[index].country for _, index in inside} - {place.country})
    country = countries().get(nearest["country"])
    reason = (
        f"The nearest place abroad is {nearest['name']} ({country.name if country else nearest['country']}), "
        f"{nearest['distance_km']:g} km {nearest['direction']}."
    )
    return {
        "score": score,
        "level": level(score),
        "formula": _FORMULA,
        "nearest_foreign": nearest,
        "foreign_countries_within_limit": codes,
        "reasons": [reason],
    }


def seasonality(context: StageContext) -> StageResult:
    """Score the difference between the longest and the shortest day: 0 on the equator, 100 in the polar night."""
    lat = context.place.lat
    days = daylight_hours(lat, TILT), daylight_hours(lat, -TILT)
    longest, shortest = max(days), min(days)
    score = scaled(longest - shortest, 0.0, 24.0)
    return {
        "score": score,
        "level": level(score),
        "formula": "100 x (longest day - shortest day) / 24 hours",
        "longest_day_hours": round(longest, 2),
        "shortest_day_hours": round(shortest, 2),
        "reasons": [f"The shortest day has {shortest:.1f} hours of daylight, the longest {longest:.1f}."],
    }


WEIGHTS: Final = {
    "ambiguity": 0.25,
    "remoteness": 0.30,
    "concentration": 0.20,
    "border": 0.10,
    "seasonality": 0.15,
}


def assessment(context: StageContext) -> StageResult:
    """Return the weighted mean of the scores, each component's share, and the reasons of the largest two."""
    components = [
        {
            "name": name,
            "score": context.results[name]["score"],
            "weight": weight,
            "contribution": round(weight * context.results[name]["score"], 2),
        }
        for name, weight in WEIGHTS.items()
    ]
    score = round(sum(weight * context.results[name]["score"] for name, weight in WEIGHTS.items()), 1)
    heaviest = sorted(components, key=lambda component: (-component["contribution"], component["name"]))[:2]
    return {
        "score": score,
        "level": level(score),
        "formula": " + ".join(f"{weight:g} x {name}" for name, weight in WEIGHTS.items()),
        "components": components,
        "reasons": [reason for component in heaviest for reason in context.results[component["name"]]["reasons"]],
    }
