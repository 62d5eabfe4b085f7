"""Stage `concentration`: how much the surroundings depend on one centre."""

from typing import Final

from .context import Context, Result, seen_from
from .risk import level, scaled

RADIUS_KM: Final = 50.0
_EVEN, _ALL = 0.2, 1.0


def concentration(context: Context) -> Result:
    """The share of the people within 50 km who live in the largest place there, and the Herfindahl index of all."""
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
        "largest": seen_from(place, centre),
        "largest_share": round(share, 3),
        "herfindahl": round(sum((count / total) ** 2 for count in people), 3) if total else None,
        "reasons": [reason],
    }
