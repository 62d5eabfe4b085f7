"""What people see of an address: a map of its surroundings, its rank, and places like it."""

from typing import Any, Final

from langlauf.bundled.address.basic_stages import RADII_KM
from langlauf.bundled.address.geometry import ring
from langlauf.domain.result import AnyView, ChartView, Column, MapView, TableView

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
