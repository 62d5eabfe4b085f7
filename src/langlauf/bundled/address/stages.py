"""What a stage of the analysis is given, and the stages of every mode after the first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from langlauf.bundled.address.data import countries, us_states
from langlauf.bundled.address.gazetteer import (
    Gazetteer,
    GazetteerPlace,
    bearing,
    compass,
    distance_km,
    load,
    mean_centre,
)
from langlauf.bundled.address.place_names import CANTONS, REGION_NAMES

# -- what a stage is given ---------------------------------------------------------------------------------------------

StageResult = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StageContext:
    """The input of a stage; `results` are the results of the earlier stages by name."""

    query: str
    table: str
    results: Mapping[str, StageResult]

    @property
    def gazetteer(self) -> Gazetteer:
        """The gazetteer the place was found in, even if the setting has changed since the job began."""
        located = self.results.get("locate")
        return load(located["table"] if located else self.table)

    @property
    def index(self) -> int:
        """The index of the located place in the gazetteer."""
        return self.gazetteer.index_of(self.results["locate"]["place"]["id"])

    @property
    def place(self) -> GazetteerPlace:
        """The located place."""
        return self.gazetteer.places[self.index]


def brief(place: GazetteerPlace) -> StageResult:
    """Return a place in the few words every list of places has."""
    return {
        "id": place.id,
        "name": place.name,
        "country": place.country,
        "region": place.region,
        "population": place.population,
        "latitude": round(place.lat, 5),
        "longitude": round(place.lon, 5),
    }


def brief_from(origin: GazetteerPlace, place: GazetteerPlace) -> StageResult:
    """Return a place in few words, with how far and in which direction it lies from another; no direction to itself."""
    distance = round(distance_km(origin.lat, origin.lon, place.lat, place.lon), 1)
    direction = compass(bearing(origin.lat, origin.lon, place.lat, place.lon)) if distance else None
    return brief(place) | {"distance_km": distance, "direction": direction}


# -- stages ------------------------------------------------------------------------------------------------------------

_CONTINENTS: Final = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


def region(context: StageContext) -> StageResult:
    """Return the region by code, with names where they are known, the country, and what the table lists in both."""
    gazetteer, place = context.gazetteer, context.place
    in_country = gazetteer.independent(gazetteer.by_country[place.country])
    in_region = [index for index in in_country if gazetteer.places[index].region == place.region]
    return {
        "region": region_facts(place.country, place.region) | _listed(context, in_region),
        "country": country_facts(place.country) | _listed(context, in_country),
    }


def region_facts(country: str, code: str) -> StageResult:
    """Return the code, kind and names of a region; without a known name, the name is empty and a note says so."""
    facts: StageResult = {"code": code or None, "kind": "region", "name": None, "names": {}, "note": None}
    if country == "CH" and code in CANTONS:
        canton = CANTONS[code]
        names = {"de": canton.german, "fr": canton.french, "it": canton.italian, "en": canton.english}
        facts |= {"kind": "canton", "name": canton.english, "names": names}
    elif country == "US" and code in us_states():
        facts |= {"kind": "state", "name": us_states()[code].name, "names": {"en": us_states()[code].name}}
    elif code in REGION_NAMES.get(country, {}):
        name = REGION_NAMES[country][code][0]
        facts |= {"name": name, "names": {"en": name}}
    elif code:
        facts["note"] = "The gazetteer gives the code of this region only; its name is not part of the data."
    else:
        facts["note"] = "The gazetteer gives no region for this place."
    return facts


def country_facts(code: str) -> StageResult:
    """Return what the table of countries has about one."""
    country = countries().get(code)
    if country is None:
        return {"code": code, "name": None}
    return {
        "code": code,
        "code3": country.iso3,
        "name": country.name,
        "continent": _CONTINENTS.get(country.continentcode, country.continentcode),
        "capital": country.capital or None,
        "population": country.population,
        "area_km2": country.areakm2,
        "people_per_km2": round(country.population / country.areakm2, 1) if country.areakm2 else None,
        "currency": country.currencycode or None,
        "languages": [language for language in country.languages.split(",") if language],
        "neighbours": sorted(filter(None, country.neighbours.split(","))),
        "calling_code": country.phone or None,
    }


def _listed(context: StageContext, indexes: list[int]) -> StageResult:
    places = context.gazetteer.places
    return {
        "places_listed": len(indexes),
        "people_listed": sum(places[index].population for index in indexes),
        "largest_places": [brief(places[index]) for index in indexes[:3]],
    }


RADII_KM: Final = (5, 10, 25)
_NEAREST: Final = 10
_QUARTERS: Final = 5
_HALF_WAY_ROUND: Final = 180.0


def surroundings(context: StageContext) -> StageResult:
    """Return the nearest places, the next larger one, the people within 5, 10 and 25 km, and all of it as GeoJSON."""
    gazetteer, place, index = context.gazetteer, context.place, context.index
    family = {index, gazetteer.parts.get(index, index)}

    def apart(other: int) -> bool:
        return other not in family and other not in gazetteer.parts

    nearest = [gazetteer.places[at] for _, at in gazetteer.grid.nearest(place.lat, place.lon, _NEAREST, apart)]
    larger = gazetteer.grid.nearest(place.lat, place.lon, 1, lambda other: other < index and apart(other))
    around = gazetteer.grid.within(place.lat, place.lon, RADII_KM[-1])
    quarters = [gazetteer.places[at] for _, at in around if gazetteer.parts.get(at) == index]
    return {
        "nearest": [brief_from(place, other) for other in nearest],
        "next_larger": brief_from(place, gazetteer.places[larger[0][1]]) if larger else None,
        "people_within": [people_within(gazetteer, around, radius) for radius in RADII_KM],
        "quarters": {"count": len(quarters), "nearest": [brief_from(place, part) for part in quarters[:_QUARTERS]]},
        "map": feature_collection(place, nearest),
    }


def people_within(gazetteer: Gazetteer, around: list[tuple[float, int]], radius_km: float) -> StageResult:
    """Return the people of the places in a circle, once without probable parts of larger places, once with all."""
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


def feature_collection(place: GazetteerPlace, nearest: list[GazetteerPlace]) -> StageResult:
    """Return the place and its neighbours as a GeoJSON FeatureCollection with a bounding box."""
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


def _bounding_box(shown: list[GazetteerPlace]) -> list[float]:
    lats, lons = [round(each.lat, 5) for each in shown], [round(each.lon, 5) for each in shown]
    west, east = min(lons), max(lons)
    if east - west > _HALF_WAY_ROUND:
        # Across the date line the box begins in the east, as GeoJSON has it.
        west, east = min(lon for lon in lons if lon > 0), max(lon for lon in lons if lon <= 0)
    return [west, min(lats), east, max(lats)]


def rank(context: StageContext) -> StageResult:
    """Return the rank by size and by centrality in region and country; 1 is the largest, and the most central."""
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


def size_rank(place: GazetteerPlace, among: list[GazetteerPlace]) -> StageResult:
    """Return the rank by population, and the share of the listed people that live there; equal sizes share a rank."""
    people = sum(other.population for other in among)
    return {
        "rank": 1 + sum(other.population > place.population for other in among),
        "of": len(among),
        "share_of_listed_people": round(place.population / people, 4) if people else None,
    }


def centrality(place: GazetteerPlace, among: list[GazetteerPlace]) -> StageResult | None:
    """Return the rank of the place by its distance to the centre of population, the mean position of all people."""
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
