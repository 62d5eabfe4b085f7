"""What people see and read of the analysis `address`: views of a result, facts, and all of its texts in German."""

from typing import Any, Final

from langlauf.bundled.address.gazetteer import ring
from langlauf.bundled.address.stages import RADII_KM
from langlauf.domain.result import AnyView, ChartView, Column, Fact, MapView, TableView

# -- views -------------------------------------------------------------------------------------------------------------

Results = dict[str, Any]

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
_PLACE: Final = {"name": "Place", "country": "Country", "population": "People", "distance_km": "Distance"}
#: A map that shows more than this many times the distance of the furthest neighbour shows the neighbours too small.
_BEYOND: Final = 1.5
_UNITS: Final = {"distance_km": "km"}


def views(results: Results) -> list[AnyView]:
    """Whatever the stages so far allow, the place itself first."""
    found: list[AnyView] = []
    if "surroundings" in results:
        found.append(surroundings_map(results))
    if "rank" in results:
        found.append(rank_chart(results))
    if "comparable" in results:
        found.append(peers_table(results))
    if "surroundings" in results:
        found.append(neighbours_table())
    if "assessment" in results:
        found.append(risk_chart(results))
    return found


def surroundings_map(results: Results) -> MapView:
    """Return the place and its neighbours, with rings and the middle of the region's people as far as these reach."""
    place, around = results["locate"]["place"], results["surroundings"]
    reach = _BEYOND * max((other["distance_km"] for other in around["nearest"]), default=RADII_KM[-1])
    features = [*_rings(place, reach), *_region(results, reach), *around["map"]["features"]]
    collection = {"type": "FeatureCollection", "features": features}
    return MapView(title=f"Around {place['name']}", geojson=collection, main=place["name"], size="population")


def _rings(place: dict[str, Any], reach: float) -> list[dict[str, Any]]:
    radii = [radius for radius in RADII_KM if radius <= reach] or RADII_KM[:1]
    drawn = [(radius, ring(place["latitude"], place["longitude"], radius)) for radius in radii]
    return [
        {
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": [list(point) for point in points]},
            "properties": {"role": "radius", "name": f"{radius} km"},
        }
        for radius, points in drawn
        if points is not None
    ]


def _region(results: Results, reach: float) -> list[dict[str, Any]]:
    """Return where the middle of the region's people is, as far as the stages know it."""
    central = results.get("rank", {}).get("region", {}).get("centrality")
    if not central or central["distance_to_centre_km"] > reach:
        return []
    region = results["region"]["region"]
    middle = central["centre_of_population"]
    name = f"Centre of population of {region['name'] or region['code'] or 'the region'}"
    return [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [middle["longitude"], middle["latitude"]]},
            "properties": {"role": "region", "name": name},
        }
    ]


def rank_chart(results: Results) -> ChartView:
    """Return how many of the listed places are smaller, in the region, the country and the world."""
    place, region = results["locate"]["place"], results["region"]["region"]
    country = place["country_name"] or place["country"]
    names = {"region": region["name"] or f"Region {region['code']}", "country": country, "world": "World"}
    values = []
    for scope, name in names.items():
        size = results["rank"][scope]["size"]
        smaller = round(100 * (size["of"] - size["rank"]) / max(size["of"] - 1, 1), 1)
        label = f"{name}: {size['rank']:,} of {size['of']:,}"
        values.append({"scope": label, "smaller": smaller, "rank": size["rank"], "of": size["of"]})
    in_country = results["rank"]["country"]["size"]
    spec = _bars(values, "scope", "smaller", "Places that are smaller (%)", domain=[0, 100])
    summary = f"By people {place['name']} is number {in_country['rank']:,} of {in_country['of']:,} in {country}."
    return ChartView(title="Rank by size", spec=spec, summary=summary)


def peers_table(results: Results) -> TableView:
    """Return places of about the same size."""
    near = [{"where": "same country", **place} for place in results["comparable"]["in_country"]]
    far = [{"where": "abroad", **place} for place in results["comparable"]["abroad"]]
    columns = [*_columns(_PLACE), Column(name="size_ratio", title="Size ratio"), Column(name="where", title="Where")]
    names = [column.name for column in columns]
    rows = [{name: place[name] for name in names} for place in [*near, *far]]
    return TableView(title="Places of the same size", rows=rows, columns=columns)


def neighbours_table() -> TableView:
    """Return the nearest places."""
    columns = [*_columns(_PLACE), Column(name="direction", title="Direction")]
    return TableView(title="Nearest places", at="/surroundings/nearest", columns=columns)


def risk_chart(results: Results) -> ChartView:
    """Return what each component adds to the score."""
    assessment = results["assessment"]
    values = [{"component": one["name"], "points": one["contribution"]} for one in assessment["components"]]
    summary = f"The components add up to a score of {assessment['score']:g} of 100, which is {assessment['level']}."
    return ChartView(title="Parts of the score", spec=_bars(values, "component", "points", "Points"), summary=summary)


def _bars(
    values: list[dict[str, Any]], name: str, value: str, title: str, domain: list[int] | None = None
) -> dict[str, Any]:
    scale = {"scale": {"domain": domain}} if domain else {}
    return {
        "$schema": _SCHEMA,
        "data": {"values": values},
        "height": {"step": 28},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": name, "type": "nominal", "title": None, "sort": None},
            "x": {"field": value, "type": "quantitative", "title": title, **scale},
        },
    }


def _columns(titles: dict[str, str]) -> list[Column]:
    return [Column(name=name, title=title, unit=_UNITS.get(name, "")) for name, title in titles.items()]


# -- texts -------------------------------------------------------------------------------------------------------------

FACTS: Final = (
    Fact(key="place", label="Place"),
    Fact(key="country", label="Country"),
    Fact(key="population", label="People"),
    Fact(key="people_within_25_km", label="People within 25 km"),
    Fact(key="risk_score", label="Score (0 to 100)"),
    Fact(key="risk_level", label="Level"),
    Fact(key="confidence", label="Certainty of the match (0 to 1)"),
    Fact(key="stages", label="Stages done"),
)
_NOT_RECOGNISED: Final = (
    "In der Eingabe wurde kein Ort erkannt. Die Schreibweise prüfen und Ort und Land ergänzen, zum Beispiel "
    "«Bundesplatz 3, 3005 Bern, Schweiz»."
)
ENGLISH: Final = {
    "Query": "Address or place",
    "basic": "basic: place and rank",
    "extended": "extended: also surroundings and names",
    "risk": "risk: also a score",
    # keys of the result
    "parse": "take the address apart",
    "locate": "find the place",
    "profile": "people by distance",
    "comparable": "comparable places",
    "sun_and_time": "sun and time",
    "border": "nearness of borders",
    # parts of the address
    "after_postcode": "after the postcode",
    "before_postcode": "before the postcode",
}
GERMAN: Final = {
    "Locate an address": "Eine Adresse finden",
    "Locate an address in the GeoNames gazetteer and describe the place, its region, surroundings and rank.": (
        "Sucht eine Adresse im Ortsverzeichnis GeoNames und beschreibt den Ort, seine Region, Umgebung und seinen Rang."
    ),
    "Every stage is a checkpoint, so a restarted job goes on where it was, and ends in a partial result that holds all "
    "stages so far. Without a recognisable place it fails with the code `address_intel`.": (
        "Nach jeder Stufe gibt es einen Zwischenstand mit allem, was bis dahin bekannt ist; ein unterbrochener Job "
        "macht dort weiter. Ohne erkennbaren Ort schlägt er mit dem Code `address_intel` fehl."
    ),
    "Query": "Adresse oder Ort",
    "An address or the name of a place, in any language and in the order people write it. The town is located; street "
    "and house number are read, but not looked up.": (
        "Eine Adresse oder ein Ortsname, in beliebiger Sprache und Reihenfolge. "
        "Gesucht wird der Ort; Strasse und Hausnummer werden gelesen, aber nicht nachgeschlagen."
    ),
    "Level of detail": "Ausführlichkeit",
    "How much to say: `basic` locates and ranks the place, `extended` adds its people, peers, accessibility, daylight "
    "and names, `risk` adds scored components with their reasons.": (
        "Wie viel gesagt wird: `basic` findet den Ort und seinen Rang, `extended` ergänzt Einwohner, ähnliche Orte, "
        "Erreichbarkeit, Tageslicht und Namen, `risk` dazu bewertete Anteile mit Begründung."
    ),
    "basic": "basic: Ort und Rang",
    "extended": "extended: dazu Umfeld und Namen",
    "risk": "risk: dazu Bewertung",
    # facts
    "Place": "Ort",
    "Country": "Land",
    "People": "Einwohner",
    "People within 25 km": "Einwohner im Umkreis von 25 km",
    "Score (0 to 100)": "Punktzahl (0 bis 100)",
    "Level": "Stufe",
    "Certainty of the match (0 to 1)": "Sicherheit des Treffers (0 bis 1)",
    "Stages done": "Erledigte Stufen",
    "low": "tief",
    "moderate": "mässig",
    "elevated": "erhöht",
    "high": "hoch",
    # steps
    "Taking the address apart": "Adresse wird zerlegt",
    "Finding the place": "Ort wird gesucht",
    "Describing the region and the country": "Region und Land werden beschrieben",
    "Measuring the surroundings": "Umgebung wird vermessen",
    "Ranking size and centrality": "Grösse und Zentralität werden eingeordnet",
    "Counting people by distance and direction": "Einwohner werden nach Entfernung und Richtung gezählt",
    "Finding comparable places": "Ähnliche Orte werden gesucht",
    "Computing the accessibility": "Erreichbarkeit wird berechnet",
    "Computing sun and time": "Sonne und Zeit werden berechnet",
    "Sorting the names by script": "Namen werden nach Schrift geordnet",
    "Weighing the ambiguity of the match": "Eindeutigkeit des Treffers wird bewertet",
    "Weighing the remoteness": "Abgelegenheit wird bewertet",
    "Weighing the concentration of people": "Konzentration der Einwohner wird bewertet",
    "Weighing the nearness of borders": "Grenznähe wird bewertet",
    "Weighing the seasons of daylight": "Jahreszeiten des Tageslichts werden bewertet",
    "Combining the components": "Anteile werden zusammengefasst",
    # keys of the result
    "parse": "Adresse zerlegen",
    "locate": "Ort suchen",
    "region": "Region",
    "surroundings": "Umgebung",
    "rank": "Rang",
    "profile": "Einwohner nach Entfernung",
    "comparable": "ähnliche Orte",
    "accessibility": "Erreichbarkeit",
    "sun_and_time": "Sonne und Zeit",
    "names": "Namen",
    "ambiguity": "Eindeutigkeit",
    "remoteness": "Abgelegenheit",
    "concentration": "Konzentration",
    "border": "Grenznähe",
    "seasonality": "Jahreszeiten",
    "assessment": "Bewertung",
    "Loading the table of places (only the first job waits for it)": (
        "Ortsverzeichnis wird geladen (nur der erste Job wartet darauf)"
    ),
    "Address taken apart": "Adresse zerlegt",
    "Place located": "Ort gefunden",
    "Region and country described": "Region und Land beschrieben",
    "Surroundings measured": "Umgebung vermessen",
    "Size and centrality ranked": "Grösse und Zentralität eingeordnet",
    "People by distance and direction counted": "Einwohner nach Entfernung und Richtung gezählt",
    "Comparable places found": "Ähnliche Orte gefunden",
    "Accessibility computed": "Erreichbarkeit berechnet",
    "Sun and time computed": "Sonne und Zeit berechnet",
    "Names sorted by script": "Namen nach Schrift geordnet",
    "Ambiguity of the match weighed": "Eindeutigkeit des Treffers bewertet",
    "Remoteness weighed": "Abgelegenheit bewertet",
    "Concentration of people weighed": "Konzentration der Einwohner bewertet",
    "Nearness of borders weighed": "Grenznähe bewertet",
    "Seasons of daylight weighed": "Jahreszeiten des Tageslichts bewertet",
    "Components combined": "Anteile zusammengefasst",
    # errors
    "The query holds no words. Send an address with the name of its town, such as “Bundesplatz 3, Bern”.": (
        "Die Eingabe enthält keine Wörter. Eine Adresse mit dem Namen des Orts angeben, zum Beispiel "
        "«Bundesplatz 3, Bern»."
    ),
    "No place called {} was found. Did you mean {}?": "Ein Ort namens {} wurde nicht gefunden. Ist {} gemeint?",
    "The query names a country or a region but no place the gazetteer knows. Add the name of the town, then send it "
    "again.": (
        "Die Eingabe nennt ein Land oder eine Region, aber keinen Ort aus dem Ortsverzeichnis. Den Namen des Orts "
        "ergänzen und noch einmal starten."
    ),
    "No place was recognised in the query. Check the spelling and add the town and the country, such as “Bundesplatz "
    "3, 3005 Bern, Switzerland”.": _NOT_RECOGNISED,
    "No place was recognised in the query. Check the spelling and add the town and the country, such as “Bundesplatz "
    "3, 3005 Bern, Switzerland”. Places with fewer than {} people are not listed.": (
        _NOT_RECOGNISED + " Orte mit weniger als {} Einwohnern sind nicht im Verzeichnis."
    ),
    # views
    "Around {}": "Rund um {}",
    "Centre of population of {}": "Bevölkerungsmittelpunkt von {}",
    "Rank by size": "Rang nach Grösse",
    "Places of the same size": "Gleich grosse Orte",
    "Nearest places": "Nächste Orte",
    "Parts of the score": "Anteile der Punktzahl",
    "Distance": "Entfernung",
    "Size ratio": "Grössenverhältnis",
    "Where": "Wo",
    "Direction": "Richtung",
    "same country": "im selben Land",
    "abroad": "im Ausland",
    "NE": "NO",
    "E": "O",
    "SE": "SO",
    "Places that are smaller (%)": "Kleinere Orte (%)",
    "Points": "Punkte",
    "World": "Welt",
    "Region {}": "Region {}",
    "{}: {} of {}": "{}: {} von {}",
    "By people {} is number {} of {} in {}.": "Nach Einwohnern ist {} Nummer {} von {} in {}.",
    "The components add up to a score of {} of 100, which is {}.": "Die Anteile ergeben {} von 100 Punkten: {}.",
    "Main place": "Hauptort",
    "Other places, by people": "Andere Orte, nach Einwohnern",
    "Role": "Rolle",
    "Words": "Wörter",
    "street": "Strasse",
    "after_postcode": "nach der Postleitzahl",
    "before_postcode": "vor der Postleitzahl",
    "Name": "Name",
    "Population": "Einwohner",
    "Distance km": "Entfernung km",
    "radius": "Umkreis",
    "place": "Ort",
    "nearby": "in der Nähe",
    "Scope": "Gebiet",
    "Smaller": "Kleiner (%)",
    "Rank": "Rang",
    "Of": "Von",
    "Component": "Anteil",
}
