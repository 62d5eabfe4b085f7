"""Maps: every kind of geometry, places that fit, and what is not a place."""

import json
from typing import Any

import pytest

from langlauf.ui.views.map_shapes import MAX_FEATURES, label_box, map_features
from langlauf.ui.views.map_svg import HEIGHT, WIDTH, MapStyle, fit_projection, map_drawing, mercator
from langlauf.ui.views.raw_json import parse_raw

RING = [[0, 0], [2, 0], [2, 2], [0, 0]]
HOLE = [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 0.5]]


def kinds(geojson: Any) -> list[str]:
    """What is drawn."""
    plan = map_drawing(map_features(parse_raw(json.dumps(geojson))))
    return [] if plan is None else [drawing.kind for drawing in plan.drawings]


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ({"type": "Point", "coordinates": [8, 47]}, ["point"]),
        ({"type": "MultiPoint", "coordinates": [[8, 47], [9, 47, 400]]}, ["point", "point"]),
        ({"type": "LineString", "coordinates": [[8, 47], [9, 47]]}, ["line"]),
        ({"type": "MultiLineString", "coordinates": [[[8, 47], [9, 47]], [[1, 1], [2, 2]]]}, ["line", "line"]),
        ({"type": "Polygon", "coordinates": [RING, HOLE]}, ["area"]),
        ({"type": "MultiPolygon", "coordinates": [[RING], [HOLE]]}, ["area", "area"]),
        ({"type": "GeometryCollection", "geometries": [
            {"type": "Point", "coordinates": [8, 47]}, {"type": "Polygon", "coordinates": [RING]},
        ]}, ["area", "point"]),
        ({"type": "Feature", "geometry": None, "properties": {}}, []),
        ({"type": "Point", "coordinates": ["8", None]}, []),
        ({"type": "Point", "coordinates": "x"}, []),
        ({"type": "Polygon", "coordinates": {"a": 1}}, []),
        ({"type": "Nonsense", "coordinates": [1, 2]}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_every_geometry_is_drawn_and_nonsense_is_not(shape: dict[str, Any], drawn: list[str]) -> None:
    """Alone or as a feature of a collection."""
    assert kinds(shape) == drawn
    feature = shape if shape.get("type") == "Feature" else {"type": "Feature", "geometry": shape}
    assert kinds({"type": "FeatureCollection", "features": [feature, {"type": "Feature"}, 7]}) == drawn


@pytest.mark.parametrize(
    "places",
    [
        [(8.54, 47.37)],
        [(-180.0, -90.0), (180.0, 90.0)],
        [(2_600_000.0, 1_200_000.0), (2_700_000.0, 1_250_000.0)],
        [(8.0, 47.0), (8.0, 47.0000001)],
        [(0.0, 0.0), (0.0, 80.0)],
    ],
)
def test_all_places_are_inside_the_picture(places: list[tuple[float, float]]) -> None:
    """One point, the whole world, plane coordinates, and a thin line."""
    projection = fit_projection(places)
    assert projection is not None
    for x, y in (projection.position(place) for place in places):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert len(projection.graticule()) < 20
    bar = projection.bar()
    assert (bar is None) == (places[0][0] > 360)
    assert bar is None or 10 < bar.width <= 140


def test_the_scale_is_true() -> None:
    """A degree on the equator is about 111 km; north is up, and Mercator is what it is."""
    projection = fit_projection([(0.0, -0.5), (1.0, 0.5)])
    assert projection is not None
    bar = projection.bar()
    assert bar is not None
    assert bar.text == "20 km"
    kilometre = (projection.position((1, 0))[0] - projection.position((0, 0))[0]) / 111.32
    assert bar.width == pytest.approx(20 * kilometre, rel=0.01)
    assert projection.position((0, 0.5))[1] < projection.position((0, -0.5))[1]
    assert mercator(60) == pytest.approx(75.456, abs=0.01)


def test_a_map_is_bounded() -> None:
    """So many features and so many positions; the rest is counted."""
    point = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"id": 7}}
    many = map_features(parse_raw(json.dumps({"type": "FeatureCollection", "features": [point] * 3_000})))
    assert (len(many.drawn), many.total) == (MAX_FEATURES, 3_000)
    assert many.drawn[0].name == "7"
    long = {"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[1, 2]] * 30_000}}
    two = map_features(parse_raw(json.dumps({"type": "FeatureCollection", "features": [long, long]})))
    assert (len(two.drawn), two.total) == (1, 2)
    assert map_features(parse_raw("[" * 5_000 + "]" * 5_000)).total == 0


def _collection(*places: tuple[str, float, float, int]) -> Any:
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [x, y]},
                "properties": {"name": name, "people": people},
            }
            for name, x, y, people in places
        ],
    }


def test_the_main_point_stands_out_and_others_are_sized_by_a_property() -> None:
    """The area of a circle grows with its value; the largest value is said."""
    given = _collection(("Bern", 7.4, 46.9, 120_000), ("Worb", 7.6, 46.95, 30_000), ("Belp", 7.5, 46.8, 0))
    plan = map_drawing(map_features(parse_raw(json.dumps(given))), MapStyle(main="Bern", size="people"))
    assert plan is not None
    radii = {one.name: one.radius for one in plan.drawings}
    assert radii["Bern"] > radii["Worb"] > radii["Belp"]
    assert [one.name for one in plan.drawings if one.main] == ["Bern"]
    assert (plan.most, plan.points) == ("120000", 3)
    assert plan.main is not None
    assert plan.main.label is not None


@pytest.mark.parametrize("narrow", [False, True])
def test_no_label_lies_on_another_and_all_are_inside(narrow: bool) -> None:
    """Names without room are left to hover and focus; a line has its name at its top."""
    places = [(f"A place {number}", 7 + number % 7 / 50, 47 + number // 7 / 80, number) for number in range(35)]
    given = _collection(*places)
    ring = {"type": "LineString", "coordinates": [[7, 47], [7.1, 47.08], [7.2, 47]]}
    given["features"].append({"type": "Feature", "geometry": ring, "properties": {"name": "5 km"}})
    plan = map_drawing(map_features(parse_raw(json.dumps(given))), narrow=narrow)
    assert plan is not None
    labels = [one.label for one in plan.drawings if one.label]
    assert "5 km" in [label.text for label in labels]
    assert 3 < len(labels) <= 36
    boxes = [label_box(label) for label in labels]
    for at, box in enumerate(boxes):
        assert box.left >= 0
        assert box.right <= plan.width
        assert not any(box.meets(other) for other in boxes[at + 1 :])
    assert all(one.tip and 0 <= one.tip.x <= plan.width for one in plan.drawings)
