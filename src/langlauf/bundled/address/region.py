"""Stage `region`: the region and the country of the place."""

from typing import Final

from .cantons import CANTONS
from .context import Context, Result, brief
from .data import countries, us_states
from .region_names import REGION_NAMES

_CONTINENTS: Final = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


def region(context: Context) -> Result:
    """The region by code, with names where they are known, the country, and what the table lists in both."""
    gazetteer, place = context.gazetteer, context.place
    in_country = gazetteer.independent(gazetteer.by_country[place.country])
    in_region = [index for index in in_country if gazetteer.places[index].region == place.region]
    return {
        "region": region_facts(place.country, place.region) | _listed(context, in_region),
        "country": country_facts(place.country) | _listed(context, in_country),
    }


def region_facts(country: str, code: str) -> Result:
    """The code, the kind and the names of a region; without a known name the name is empty and a note says so."""
    facts: Result = {"code": code or None, "kind": "region", "name": None, "names": {}, "note": None}
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


def country_facts(code: str) -> Result:
    """What the table of countries says about one."""
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


def _listed(context: Context, indexes: list[int]) -> Result:
    places = context.gazetteer.places
    return {
        "places_listed": len(indexes),
        "people_listed": sum(places[index].population for index in indexes),
        "largest_places": [brief(places[index]) for index in indexes[:3]],
    }
