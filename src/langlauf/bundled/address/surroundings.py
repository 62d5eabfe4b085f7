"""Stage `surroundings`: what lies around the place, for people and for a map."""

from typing import Final

from .context import Context, Result, brief, seen_from
from .gazetteer import Gazetteer, Place

RADII_KM: Final = (5, 10, 25)
_NEAREST: Final = 10
_QUARTERS: Final = 5
_HALF_WAY_ROUND: Final = 180.0


def surroundings(context: Context) -> Result:
    """The nearest places, the next larger one, the people within 5, 10 and 25 km, and all of it as GeoJSON."""
    gazetteer, place, index = context.gazetteer, context.place, context.index
    family = {index, gazetteer.parts.get(index, index)}

    def apart(other: int) -> bool:
        return other not in family and other not in gazetteer.parts

    nearest = [gazetteer.places[at] for _, at in gazetteer.grid.nearest(place.lat, place.lon, _NEAREST, apart)]
    larger = gazetteer.grid.nearest(place.lat, place.lon, 1, lambda other: other < index and apart(other))
    around = gazetteer.grid.within(place.lat, place.lon, RADII_KM[-1])
    quarters = [gazetteer.places[at] for _, at in around if gazetteer.parts.get(at) == index]
    return {
        "nearest": [seen_from(place, other) for other in nearest],
        "next_larger": seen_from(place, gazetteer.places[larger[0][1]]) if larger else None,
        "people_within": [people_within(gazetteer, around, radius) for radius in RADII_KM],
        "quarters": {"count": len(quarters), "nearest": [seen_from(place, part) for part in quarters[:_QUARTERS]]},
        "map": feature_collection(place, nearest),
    }


def people_within(gazetteer: Gazetteer, around: list[tuple[float, int]], radius_km: float) -> Result:
    """The people of the places in a circle: once without probable parts of larger places, once with everything."""
    inside = [index for distance, index in around if distance <= radius_km]
    counted = gazetteer.independent(inside)
    # A circle around a quarter may miss the centre of its city; then the quarters are all there is to count.
    missed = [index for index in inside if index in gazetteer.parts and gazetteer.parts[index] not in inside]
    return {
        "radius_km": radius_km,
        "people": sum(gazetteer.places[index].population for index in [*counted, *missed]),
        "people_upper_bound": sum(gazetteer.places[index].population for index in inside),
        "places": len(counted) + len(missed),
    }


def feature_collection(place: Place, nearest: list[Place]) -> Result:
    """The place and its neighbours as a GeoJSON FeatureCollection with a bounding box."""
    shown = [place, *nearest]
    return {
        "type": "FeatureCollection",
        "bbox": _bounding_box(shown),
        "features": [
            {
                "type": "Feature",
                "id": each.id,
                "geometry": {"type": "Point", "coordinates": [round(each.lon, 5), round(each.lat, 5)]},
                "properties": {"role": "place" if each is place else "nearby"}
                | {key: value for key, value in brief(each).items() if key in {"name", "country", "population"}},
            }
            for each in shown
        ],
    }


def _bounding_box(shown: list[Place]) -> list[float]:
    lats, lons = [round(each.lat, 5) for each in shown], [round(each.lon, 5) for each in shown]
    west, east = min(lons), max(lons)
    if east - west > _HALF_WAY_ROUND:
        # Across the date line the box begins in the east, as GeoJSON has it.
        west, east = min(lon for lon in lons if lon > 0), max(lon for lon in lons if lon <= 0)
    return [west, min(lats), east, max(lats)]
