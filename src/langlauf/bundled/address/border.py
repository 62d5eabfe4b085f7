"""Stage `border`: how near the next country is, judged by its nearest listed place."""

from typing import Final

from .context import Context, Result, seen_from
from .data import countries
from .risk import level, scaled

FAR_KM: Final = 50.0
_FORMULA: Final = "100 x (1 - distance to the nearest foreign place / 50 km), at least 0"


def border(context: Context) -> Result:
    """The nearest foreign place as a score: 100 next door, 0 from 50 km on. It is exposure, not danger."""
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
    nearest = seen_from(place, gazetteer.places[found[0][1]])
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
