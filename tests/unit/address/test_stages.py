"""What the stages say about known places."""

from collections.abc import Callable
from typing import Any

import pytest

from langlauf.bundled.address.extended_stages import daylight_hours, evenness, utc_offset_hours
from langlauf.bundled.address.gazetteer import Gazetteer, GazetteerPlace
from langlauf.bundled.address.place_names import CANTONS, POSTCODE_AREAS, REGION_NAMES
from langlauf.bundled.address.risk_stages import WEIGHTS, level, scaled
from langlauf.bundled.address.stages import feature_collection, region_facts

Analyse = Callable[..., dict[str, Any]]

CANTON_CAPITALS = {
    "AG": "5000", "AI": "9050", "AR": "9100", "BE": "3000", "BL": "4410", "BS": "4001", "FR": "1700", "GE": "1200",
    "GL": "8750", "GR": "7000", "JU": "2800", "LU": "6000", "NE": "2000", "NW": "6370", "OW": "6060", "SG": "9000",
    "SH": "8200", "SO": "4500", "SZ": "6430", "TG": "8500", "TI": "6500", "UR": "6460", "VD": "1000", "VS": "1950",
    "ZG": "6300", "ZH": "8000",
}  # fmt: skip


def test_parse_takes_the_address_apart(analyse: Analyse) -> None:
    """Street, postcode, place and hints are told apart."""
    parsed = analyse("Rue de Rivoli 1, 75001 Paris, France", until="parse")["parse"]
    assert parsed["street"] == "Rue de Rivoli 1"
    assert parsed["postcode"]["text"] == "75001"
    assert {"FR", "DE", "US"} <= set(parsed["postcode"]["countries"])
    assert "CH" not in parsed["postcode"]["countries"]
    assert parsed["place_words"] == ["Paris", "France"]
    assert [hint["text"] for hint in parsed["hints"]] == ["France"]


def test_every_canton_of_the_gazetteer_has_its_names(gazetteer: Gazetteer) -> None:
    """The table of cantons is the set of codes the gazetteer uses for Switzerland."""
    codes = {gazetteer.places[index].region for index in gazetteer.by_country["CH"]}
    assert codes == set(CANTONS)
    assert len(CANTONS) == 26
    assert all(name for canton in CANTONS.values() for name in canton)


@pytest.mark.parametrize(("canton", "postcode"), CANTON_CAPITALS.items())
def test_postcode_of_a_canton_capital_leads_to_the_canton(canton: str, postcode: str) -> None:
    """The delivery area of a capital's postcode includes its canton."""
    assert canton in POSTCODE_AREAS[postcode[0]]


@pytest.mark.parametrize("country", REGION_NAMES)
def test_named_regions_are_those_of_the_gazetteer(gazetteer: Gazetteer, country: str) -> None:
    """A table of region names has every code the gazetteer uses for the country, and no other."""
    codes = {gazetteer.places[index].region for index in gazetteer.by_country[country]} - {""}
    assert codes == set(REGION_NAMES[country])


def test_canton_has_four_names(analyse: Analyse) -> None:
    """A Swiss place comes with its canton in four languages."""
    region = analyse("Genf", until="region")["region"]["region"]
    assert region["kind"] == "canton"
    assert region["names"] == {"de": "Genf", "fr": "Genève", "it": "Ginevra", "en": "Geneva"}


def test_state_has_its_name_and_other_regions_say_they_have_none() -> None:
    """Regions are named where the data has names, and say so where it has none."""
    assert region_facts("US", "IL")["name"] == "Illinois"
    assert region_facts("DE", "02")["name"] == "Bavaria"
    unnamed = region_facts("JP", "40")
    assert unnamed["name"] is None
    assert unnamed["code"] == "40"
    assert "code" in unnamed["note"]


def test_surroundings_grow_with_the_radius(analyse: Analyse) -> None:
    """Wider circles hold no fewer people, the estimate stays under its bound, and neighbours come nearest first."""
    around = analyse("Bern", until="surroundings")["surroundings"]
    people = [circle["people"] for circle in around["people_within"]]
    distances = [other["distance_km"] for other in around["nearest"]]
    assert [circle["radius_km"] for circle in around["people_within"]] == [5, 10, 25]
    assert people == sorted(people)
    assert people[0] >= 121_631
    assert all(circle["people"] <= circle["people_upper_bound"] for circle in around["people_within"])
    assert distances == sorted(distances)
    assert len(distances) == 10


def test_quarters_are_not_counted_twice(analyse: Analyse) -> None:
    """The people of Zürich within five kilometres are the city's, not the city's and its quarters' again."""
    around = analyse("Zürich", until="surroundings")["surroundings"]
    assert around["people_within"][0]["people"] < 450_000 < around["people_within"][0]["people_upper_bound"]
    assert around["quarters"]["count"] > 20
    assert not any("Kreis" in other["name"] for other in around["nearest"])


def test_map_is_geojson(analyse: Analyse) -> None:
    """The map is a FeatureCollection of points, the place first, coordinates as longitude and latitude."""
    shown = analyse("Bern", until="surroundings")["surroundings"]["map"]
    first = shown["features"][0]
    assert shown["type"] == "FeatureCollection"
    assert first["properties"]["role"] == "place"
    assert first["geometry"] == {"type": "Point", "coordinates": [7.44744, 46.94809]}
    west, south, east, north = shown["bbox"]
    assert all(
        west <= x <= east and south <= y <= north
        for x, y in (feature["geometry"]["coordinates"] for feature in shown["features"])
    )


def test_map_box_crosses_the_date_line() -> None:
    """A map around the date line begins in the east, as GeoJSON has it."""
    west, east = (GazetteerPlace(1, "x", -17.0, lon, "FJ", 1, "", "", b"") for lon in (179.5, -179.5))
    assert feature_collection(west, [east])["bbox"] == [179.5, -17.0, -179.5, -17.0]


def test_largest_city_ranks_first(analyse: Analyse) -> None:
    """Zürich is the largest place of its canton and of Switzerland."""
    rank = analyse("Zürich", until="rank")["rank"]
    assert rank["region"]["size"]["rank"] == rank["country"]["size"]["rank"] == 1
    assert 0 < rank["country"]["size"]["share_of_listed_people"] < 0.2


def test_central_place_ranks_before_a_place_at_the_edge(analyse: Analyse) -> None:
    """Olten is nearer the middle of the Swiss than Chiasso."""
    central, edge = (analyse(query, until="rank")["rank"]["country"]["centrality"] for query in ("Olten", "Chiasso"))
    assert central["rank"] < edge["rank"] <= edge["of"] == central["of"]
    assert central["distance_to_centre_km"] < edge["distance_to_centre_km"]


def test_profile_counts_everyone_once(analyse: Analyse) -> None:
    """The rings up to 25 km hold the people of the circle, and evenness is between its bounds."""
    results = analyse("Luzern", until="profile")
    rings = results["profile"]["rings"]
    assert sum(ring["people"] for ring in rings[:3]) == results["surroundings"]["people_within"][2]["people"]
    assert 0 < results["profile"]["evenness"] < 1
    assert evenness([7] * 8) == 1
    assert evenness([5, 0, 0, 0, 0, 0, 0, 0]) == 0
    assert evenness([0] * 8) is None


def test_comparable_places_are_of_like_size(analyse: Analyse) -> None:
    """Peers abroad come from different countries and differ little in size."""
    peers = analyse("Bern", until="comparable")["comparable"]
    assert len({peer["country"] for peer in peers["abroad"]} - {"CH"}) == 5
    assert all(0.9 < peer["size_ratio"] < 1.1 for peer in peers["abroad"])
    assert all(peer["country"] == "CH" for peer in peers["in_country"])


def test_city_is_more_accessible_than_valley(analyse: Analyse) -> None:
    """Zürich has more people within reach than Zermatt, and no potential is below the place's own people."""
    city, valley = (analyse(query, until="accessibility")["accessibility"] for query in ("Zürich", "Zermatt"))
    assert city["potential"] > 5 * valley["potential"]
    assert 0 < city["own_share"] <= 1
    assert 0 < valley["index"] < city["index"] <= 100


@pytest.mark.parametrize(
    ("latitude", "declination", "hours"),
    [(0, 0, 12.1), (47, 23.44, 15.9), (47, -23.44, 8.5), (80, 23.44, 24), (80, -23.44, 0), (90, 1, 24), (-90, 1, 0)],
)
def test_daylight(latitude: float, declination: float, hours: float) -> None:
    """Daylight agrees with the almanac, at the poles too."""
    assert daylight_hours(latitude, declination) == pytest.approx(hours, abs=0.1)


def test_offset_of_a_zone_that_is_not_known_is_none() -> None:
    """A zone without data gives nothing instead of a guess."""
    assert utc_offset_hours("Nowhere/Land", month=1) is None
    assert utc_offset_hours("", month=1) is None


def test_names_come_by_script(analyse: Analyse) -> None:
    """The names of Tokyo are sorted by script, and none is lost."""
    names = analyse("東京", until="names")["names"]
    by_script = {group["script"]: group for group in names["scripts"]}
    assert "東京" in by_script["cjk"]["names"]
    assert "Токио" in by_script["cyrillic"]["names"]
    assert sum(group["count"] for group in names["scripts"]) == names["other_names"]


@pytest.mark.parametrize("query", ["Zürich", "Zermatt", "Springfield", "Basel", "Longyearbyen", "Honolulu", "Majuro"])
def test_risk_scores_have_bounds_and_reasons(analyse: Analyse, query: str) -> None:
    """Every component is between 0 and 100, says its formula and its reasons, and the whole is their weighted sum."""
    results = analyse(query, until="assessment")
    for name in WEIGHTS:
        assert 0 <= results[name]["score"] <= 100
        assert results[name]["formula"]
        assert results[name]["reasons"]
        assert results[name]["level"] == level(results[name]["score"])
    expected = sum(weight * results[name]["score"] for name, weight in WEIGHTS.items())
    assert results["assessment"]["score"] == pytest.approx(expected, abs=0.06)


def test_weights_add_up_to_one() -> None:
    """The combined score has the range of its components."""
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_border_and_remoteness_order_places_as_maps_do(analyse: Analyse) -> None:
    """Basel is nearer the border than Bern, and Honolulu is remoter than Basel."""
    basel, bern, honolulu = (analyse(query, until="border") for query in ("Basel", "Bern", "Honolulu, Hawaii"))
    assert basel["border"]["score"] > bern["border"]["score"] >= honolulu["border"]["score"] == 0
    assert {"DE", "FR"} <= set(basel["border"]["foreign_countries_within_limit"])
    assert honolulu["remoteness"]["score"] > basel["remoteness"]["score"]


@pytest.mark.parametrize(
    ("score", "word"), [(0, "low"), (25, "moderate"), (50, "elevated"), (75, "high"), (100, "high")]
)
def test_levels(score: float, word: str) -> None:
    """The words for scores change at 25, 50 and 75."""
    assert level(score) == word
    assert scaled(score, 0, 100) == score
