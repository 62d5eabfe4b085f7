"""What people see of an address: drawn from what the stages found, and from nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.analysis.payload import encode_views
from langlauf.bundled.address.gazetteer import distance_km, ring
from langlauf.bundled.address.presentation import rank_chart, surroundings_map, views
from langlauf.domain.result import TableView, views_from

Analyse = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def bern(analyse: Analyse) -> dict[str, Any]:
    """Every stage of an address."""
    return analyse("Bundesplatz 3, 3005 Bern", until="assessment")


def test_each_stage_adds_what_it_can_show(analyse: Analyse, bern: dict[str, Any]) -> None:
    """A partial result has the views of the stages so far; the last has all of them."""
    shown = {stage: [view.title for view in views(analyse("Bern", until=stage))] for stage in ("locate", "rank")}
    assert shown == {"locate": [], "rank": ["Around Bern", "Rank by size", "Nearest places"]}
    assert [view.title for view in views(bern)] == [
        "Around Bern", "Rank by size", "Places of the same size", "Nearest places", "Parts of the score",
    ]  # fmt: skip
    assert len(views_from(encode_views(views(bern)))) == 5, "they can be stored and read again"


def test_the_map_has_the_place_its_neighbours_rings_and_the_region(bern: dict[str, Any]) -> None:
    """The place is on it once, with ten neighbours, the rings that reach as far, and the middle of its canton."""
    shown = surroundings_map(bern).geojson
    assert shown is not None
    roles = [feature["properties"]["role"] for feature in shown["features"]]
    assert {role: roles.count(role) for role in roles} == {"radius": 2, "region": 1, "place": 1, "nearby": 10}
    names = [feature["properties"]["name"] for feature in shown["features"]]
    assert names[:4] == ["5 km", "10 km", "Centre of population of Bern", "Bern"]


def test_a_far_place_has_a_wide_map(analyse: Analyse) -> None:
    """All rings are drawn where the neighbours are far, and the middle of a large region is not."""
    shown = surroundings_map(analyse("Alice Springs", until="rank")).geojson
    assert shown is not None
    roles = [feature["properties"]["role"] for feature in shown["features"]]
    assert (roles.count("radius"), roles.count("nearby")) == (3, 10)


def test_the_rank_is_told_in_words_and_figures(bern: dict[str, Any]) -> None:
    """The largest place of its region has all others below it."""
    chart = rank_chart(bern)
    region, country, world = chart.spec["data"]["values"]
    assert (region["smaller"], region["rank"], country["rank"], world["scope"][:6]) == (100, 1, 5, "World:")
    assert chart.summary == "By people Bern is number 5 of 304 in Switzerland."


def test_tables_name_fields_that_are_there(bern: dict[str, Any]) -> None:
    """Both tables have rows, given with the table or where it points, and every column is a field of each row."""
    peers, nearest = (view for view in views(bern) if isinstance(view, TableView))
    assert (peers.at, nearest.at, nearest.rows) == (None, "/surroundings/nearest", None)
    assert_columns_in_rows(peers, peers.rows)
    assert_columns_in_rows(nearest, bern["surroundings"]["nearest"])


def assert_columns_in_rows(table: TableView, rows: list[dict[str, Any]] | None) -> None:
    """There are columns and rows, and each row has each of the columns."""
    assert rows
    names = {column.name for column in table.columns}
    assert {"name", "country", "population", "distance_km"} < names
    assert [row for row in rows if not names <= row.keys()] == []


@given(st.floats(-85, 85), st.floats(-170, 170), st.sampled_from([5.0, 25.0]))
def test_a_ring_is_everywhere_as_far_away(lat: float, lon: float, radius: float) -> None:
    """Each corner lies at the radius, and the ring is closed."""
    points = ring(lat, lon, radius)
    assert points is not None
    assert points[0] == points[-1]
    assert all(abs(distance_km(lat, lon, at, east) - radius) < 0.01 for east, at in points)


@pytest.mark.parametrize(("lat", "lon"), [(89.9, 10.0), (-17.7, 179.95)])
def test_no_ring_tears_a_map(lat: float, lon: float) -> None:
    """Around a pole and across the date line there is none."""
    assert ring(lat, lon, 25) is None
