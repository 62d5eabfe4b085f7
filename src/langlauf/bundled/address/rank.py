"""Stage `rank`: how large and how central the place is, in its region and its country."""

from .context import Context, Result
from .gazetteer import Place
from .geometry import bearing, compass, distance_km, mean_centre


def rank(context: Context) -> Result:
    """The rank by size and by centrality in region and country; 1 is the largest, and the most central."""
    gazetteer, place = context.gazetteer, context.place
    in_country = [gazetteer.places[index] for index in gazetteer.independent(gazetteer.by_country[place.country])]
    if place not in in_country:
        in_country.append(place)
    in_region = [other for other in in_country if other.region == place.region]
    return {
        "region": {"size": size_rank(place, in_region), "centrality": centrality(place, in_region)},
        "country": {"size": size_rank(place, in_country), "centrality": centrality(place, in_country)},
        "world": {"size": {"rank": context.index + 1, "of": len(gazetteer.places)}},
    }


def size_rank(place: Place, among: list[Place]) -> Result:
    """The rank by population, and the share of the listed people that live there; equal sizes share a rank."""
    people = sum(other.population for other in among)
    return {
        "rank": 1 + sum(other.population > place.population for other in among),
        "of": len(among),
        "share_of_listed_people": round(place.population / people, 4) if people else None,
    }


def centrality(place: Place, among: list[Place]) -> Result | None:
    """How near the place is to the centre of population, the mean position of all listed people, against the others."""
    centre = mean_centre([(other.lat, other.lon, float(other.population)) for other in among])
    if centre is None:
        return None
    own = distance_km(place.lat, place.lon, *centre)
    nearer = sum(distance_km(other.lat, other.lon, *centre) < own for other in among)
    return {
        "rank": 1 + nearer,
        "of": len(among),
        "centre_of_population": {"latitude": round(centre[0], 3), "longitude": round(centre[1], 3)},
        "distance_to_centre_km": round(own, 1),
        "direction_of_centre": compass(bearing(place.lat, place.lon, *centre)),
    }
