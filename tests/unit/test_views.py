"""What an analysis shows beside its result: made with `langlauf.views`, stored as JSON."""

import io
import struct
from typing import Any

import msgspec
import pytest

from langlauf import Result, views
from langlauf.analysis.payload import encode_result, encode_views
from langlauf.domain.errors import ResultTooLarge, ResultUnstorable, UnusableView
from langlauf.domain.outcome import classify
from langlauf.domain.result import LARGEST_VIEWS, MOST_VIEWS, Column, ImageView, TableView, views_from
from langlauf.domain.text import pointer_parts

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
POINT = {"type": "Point", "coordinates": [8.5, 47.4]}
BARS = {"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}


class Drawing:
    """What Altair and Matplotlib give: something that can write itself."""

    def to_dict(self) -> dict[str, Any]:
        return BARS

    def savefig(self, file: io.BytesIO, format: str) -> None:  # noqa: A002 - as Matplotlib calls it
        file.write(PNG + format.encode())


class Place:
    __geo_interface__ = POINT


def test_views_come_back_as_they_were_made() -> None:
    made = [
        views.table([{"a": 1}, {"a": 2}], columns={"a": "Number"}, title="Rows"),
        views.table(at="/rows", columns=["a", views.Column(name="b", title="B", unit="m")]),
        views.chart(BARS, title="Bars", summary="One bar."),
        views.map(POINT),
        views.map(at="/places/0"),
        views.markdown("**bold** ä"),
        views.image(PNG, alt="Pixels"),
        views.file("a.csv", "a,b\n1,2\n"),
    ]

    assert views_from(encode_views(made)) == made


def test_the_json_of_a_view_is_small_and_plain() -> None:
    text = encode_views([views.table(at="/rows", columns=["a"]), views.markdown("x")])

    assert msgspec.json.decode(text or "") == [
        {"kind": "table", "at": "/rows", "columns": [{"name": "a"}]},
        {"kind": "markdown", "text": "x"},
    ]


def test_no_views_are_nothing_to_store() -> None:
    assert encode_views([]) is None
    assert views_from(None) == []


def test_objects_of_other_libraries_are_taken_as_they_are() -> None:
    assert views.chart(Drawing()).spec == BARS
    assert views.image(Drawing()).data == PNG + b"png"
    assert views.map(Place()).geojson == POINT


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF" + struct.pack("<I", 4) + b"WEBPVP8 ", "image/webp"),
    ],
)
def test_the_type_of_a_picture_is_seen_in_its_bytes(data: bytes, kind: str) -> None:
    assert views.image(data).media_type == kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", "a", "text/csv; charset=utf-8"),
        ("a.GeoJSON", "{}", "application/geo+json"),
        ("notes", "a", "text/plain; charset=utf-8"),
        ("page.html", "<b>", "text/plain; charset=utf-8"),
        ("blob.bin", b"\x00", "application/octet-stream"),
    ],
)
def test_the_type_of_a_file_follows_from_its_name(name: str, content: str | bytes, kind: str) -> None:
    assert views.file(name, content).media_type == kind


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (views.table, "either rows=… or at="),
        (lambda: views.table([{}], at="/a"), "either rows=… or at="),
        (lambda: views.table("abc"), "list of dicts"),
        (lambda: views.table([1, 2]), r"rows\[0\] is a int"),
        (lambda: views.table(at="rows"), "write /rows"),
        (lambda: views.table(at="/a~b"), "write ~0"),
        (lambda: views.table(at=3), "at is a text"),  # type: ignore[arg-type]
        (lambda: views.table([], columns="a"), r"write columns=\['a'\]"),
        (lambda: views.table([], columns=[1]), "a column is a name"),  # type: ignore[list-item]
        (lambda: views.chart({"marks": []}), "Vega-Lite"),
        (lambda: views.chart("bar"), "Altair"),
        (lambda: views.map({"type": "Circle"}), "FeatureCollection"),
        (lambda: views.markdown(7), "text is a text"),  # type: ignore[arg-type]
        (lambda: views.image(b"<svg/>"), "save the picture as PNG"),
        (lambda: views.image("a.png"), "read the file in first"),
        (lambda: views.image(PNG, media_type="image/gif"), "leave media_type out"),
        (lambda: views.file("../a.csv", ""), "such as parcels.csv"),
        (lambda: views.file("a.csv", "", media_type="csv"), "such as text/csv"),
        (lambda: views.file("a.csv", "\ud800"), "surrogate"),
        (lambda: views.markdown("x", title=None), "title is a text"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_shown_says_what_to_give_instead(make: Any, says: str) -> None:
    with pytest.raises(UnusableView, match=says) as raised:
        make()
    assert classify(raised.value).code == "result_unstorable"


def test_what_is_too_large_is_refused_before_it_is_encoded() -> None:
    with pytest.raises(ResultTooLarge, match="make it smaller"):
        views.file("a.bin", bytes(LARGEST_VIEWS))


def test_all_views_of_a_snapshot_share_one_limit() -> None:
    half = views.markdown("x" * (LARGEST_VIEWS // 2))

    assert encode_views([half]) is not None
    with pytest.raises(ResultTooLarge, match="point into the result"):
        encode_views([half, half])


def test_a_snapshot_has_a_limited_number_of_views() -> None:
    one = views.markdown("x")

    assert encode_views([one] * MOST_VIEWS) is not None
    with pytest.raises(UnusableView, match=f"at most {MOST_VIEWS}"):
        encode_views([one] * (MOST_VIEWS + 1))


@pytest.mark.parametrize("given", [[{"kind": "table"}], "table", views.markdown("x")])
def test_only_views_are_views(given: Any) -> None:
    with pytest.raises(UnusableView, match=r"langlauf\.views"):
        encode_views(given)


@pytest.mark.parametrize(
    "view",
    [
        views.markdown("\x00"),
        views.markdown("\ud800"),
        views.table([{"a": float("nan")}]),
        views.table([[2**64]]),
        views.table([[object()]]),
    ],
)
def test_views_are_checked_like_results(view: Any) -> None:
    with pytest.raises(ResultUnstorable):
        encode_views([view])


def test_a_result_names_its_summary_and_views() -> None:
    table = views.table(at="/rows")
    end = encode_result(Result({"rows": []}, summary={"rows": 0}, views=[table]), 1_000)

    assert (end.payload, end.summary, views_from(end.views)) == ('{"rows":[]}', '{"rows":0}', [table])


def test_without_one_of_its_own_a_result_has_the_summary_that_its_payload_names() -> None:
    payload = {"summary": {"rows": 0}}

    assert encode_result(Result(payload), 1_000) == encode_result(payload, 1_000)
    assert encode_result(payload, 1_000).summary == '{"rows":0}'
    assert encode_result({"summary": "a text"}, 1_000).summary is None


@pytest.mark.parametrize(
    ("pointer", "parts"), [("", []), ("/", [""]), ("/a/0", ["a", "0"]), ("/a~1b/~01", ["a/b", "~1"])]
)
def test_pointers_are_read_as_the_standard_says(pointer: str, parts: list[str]) -> None:
    assert pointer_parts(pointer) == parts


def test_structs_can_be_compared() -> None:
    assert TableView(at="/a", columns=[Column(name="b")]) == views.table(at="/a", columns=["b"])
    assert ImageView(media_type="image/png", data=PNG) == views.image(PNG)
