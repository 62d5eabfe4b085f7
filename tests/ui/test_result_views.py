"""What the page of a result shows of each view, over HTTP, and what it does not let through."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest

from tests.support.live import Live, live
from tests.support.view_samples import ATTACK, BARS, CITIES, EXACT, PLACES, SVG, png, showing_app
from tests.ui.html_page import HtmlPage, assert_page

_NUMBERED = re.compile(r"views/(\d+)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose analyses have views."""
    with live(tmp_path_factory.mktemp("shown"), showing_app()) as running:
        yield running


def result(server: Live, analysis: str, **values: Any) -> str:
    """The address of the result of a job that completed."""
    job = server.wait(server.submit(analysis, **values)["job_id"])
    assert job["status"] == "completed", job["error_message"]
    return f"/results/{job['result_id']}"


def shown(server: Live, analysis: str, **values: Any) -> HtmlPage:
    """The page of a result."""
    return assert_page(server.http.get(result(server, analysis, **values)))


def panels(made: HtmlPage) -> list[str]:
    """The anchors of its panels."""
    return [one["id"].removeprefix("panel-") for one in made.all("section") if one.get("class") == "panel"]


def test_every_view_is_a_panel_and_attacks_are_texts(server: Live) -> None:
    """In the order of the analysis, then JSON; nothing of it is markup."""
    made = shown(server, "shown", place="Zürich")
    assert panels(made) == ["table-1", "chart-2", "map-3", "markdown-4", "image-5", "file-6", "json"]
    assert [one["href"] for one in made.all("a") if one.get("id", "").startswith("tab-")] == [
        f"#panel-{name}" for name in panels(made)
    ]
    assert made.text.count(ATTACK) >= 7
    assert str(EXACT) in made.text
    assert "hidden-word" not in made.text
    assert "xyzzy" not in made.text
    assert {one.get("alt") for one in made.all("img")} == {"Zürich is the loudest of three cities.", "A grey field"}
    assert all("width" in one and "height" in one for one in made.all("img"))


def test_a_chart_is_a_picture_at_its_own_address(server: Live) -> None:
    """SVG that is kept, cannot run and cannot load, in two themes and two sizes; nothing is at other addresses."""
    address = result(server, "shown", place="Zürich")
    made = assert_page(server.http.get(address))
    addresses = [made.all("img")[0]["src"], *(one["srcset"] for one in made.all("source"))]
    drawn = [server.http.get(urljoin(address, one)) for one in addresses]
    for answer in drawn:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "private, max-age=86400, immutable"
    assert len({answer.content for answer in drawn}) == len(drawn) == 6
    for missing in ("1.svg", "3.svg", "9.svg", "0", "1", "x", "-1", "999", "2"):
        assert_page(server.http.get(f"{address}/views/{missing}"), 404)
    assert_page(server.http.get(f"{address}/views/2.svg?theme=pink"), 400)
    assert_page(server.http.get(f"{address}/views/2.svg", headers={"X-Org-Id": "org-b"}), 404)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**BARS, "data": {"url": "https://example.org/x.csv"}}, "refers to data on another server"),
        ({**BARS, "mark": "image"}, "refers to data on another server"),
        ({**BARS, "mark": {"type": 7}}, "its specification is not valid"),
        ({**BARS, "width": 1_000_000}, "too large to draw"),
    ],
)
def test_a_chart_that_is_not_drawn_says_why_and_shows_its_data(server: Live, spec: dict[str, Any], words: str) -> None:
    """A calm note, no broken picture, and 404 at its address."""
    address = result(server, "charted", spec=spec)
    made = assert_page(server.http.get(address))
    assert words in made.text
    assert made.all("img") == []
    assert ("Data as a table" in made.text) == ("values" in spec["data"])
    assert_page(server.http.get(f"{address}/views/1.svg"), 404)


def test_pictures_and_files_are_sent_so_that_they_cannot_run(server: Live) -> None:
    """A picture to be shown; a file to be saved, whatever type it claims."""
    address = result(server, "shown", place="Zürich")
    picture = server.http.get(f"{address}/views/5")
    assert (picture.headers["content-type"], picture.content) == ("image/png", png(320, 120))
    assert picture.headers["content-security-policy"].endswith("sandbox")
    saved = server.http.get(f"{address}/views/5?download=1")
    assert saved.headers["content-disposition"].startswith('attachment; filename="Picture.png"')
    file = server.http.get(f"{address}/views/6")
    assert file.headers["content-type"].startswith("text/csv")
    assert file.headers["content-disposition"].startswith('attachment; filename="levels.csv"')
    assert file.headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_picture_that_is_none_can_only_be_saved(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """SVG under the name of a picture is bytes; the checks of an analysis are not trusted."""
    monkeypatch.setattr(
        "tests.support.view_samples.all_views", lambda: [_image("image/svg+xml"), _image("image/png"), _file()]
    )
    address = result(server, "shown", place="Zürich")
    made = assert_page(server.http.get(address))
    assert made.all("img") == []
    assert made.text.count("This image cannot be shown here.") == 2
    for number in (1, 2, 3):
        answer = server.http.get(f"{address}/views/{number}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert "\n" not in answer.headers["content-disposition"]


def _image(media_type: str) -> Any:
    from langlauf.domain.result import ImageView

    return ImageView(media_type=media_type, data=SVG, alt=ATTACK, title=ATTACK)


def _file() -> Any:
    from langlauf.domain.result import FileView

    return FileView(name=f'../"{ATTACK}.html', media_type="text/html", data=SVG)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ([{"a": 1}], ["table-1", "json"]),
        ({"rows": CITIES, "n": 1}, ["table-1", "json"]),
        (PLACES, ["map-1", "json"]),
        ({"x": [1, 2, 3], "y": [1, 4, 9]}, ["chart-1", "json"]),
        ({"n": 1}, ["json"]),
        ("text", ["json"]),
        (None, ["json"]),
    ],
)
def test_without_views_the_shape_decides(server: Live, payload: Any, expected: list[str]) -> None:
    """A table, a map, a chart, or JSON alone."""
    assert panels(shown(server, "plain", payload=payload)) == expected


def test_a_large_table_shows_its_beginning(server: Live) -> None:
    """Two hundred rows of many, and the page stays small; the download has all of them."""
    rows = [{"id": n, "text": "x" * 40} for n in range(10_000)]
    address = result(server, "plain", payload=rows)
    response = server.http.get(address)
    made = assert_page(response)
    assert "First 200 of 10000 rows." in made.text
    assert "too large to show as a whole" in made.text
    assert len(response.content) < 100_000
    assert server.http.get(f"{address}/download?format=csv").text.count("\r\n") == 10_001


def test_downloads_are_exact_and_safe(server: Live) -> None:
    """JSON as it is stored, CSV without formulas, GeoJSON; attachments all, for the org alone."""
    address = result(server, "shown", place="Zürich")
    made = assert_page(server.http.get(address))
    links = [urljoin(address, one["href"]) for one in made.all("a") if one.get("class") == "download"]
    assert [link.rpartition("=")[2] for link in links] == ["json", "csv", "geojson"]
    json, csv, geojson = (server.http.get(link) for link in links)
    assert json.json()["password"] == "hidden-word"
    assert json.json()["rows"][0]["id"] == EXACT
    assert csv.text.splitlines()[0] == "\ufeffCity,id,Level,share,tags,api_token"
    assert geojson.json() == PLACES
    for answer in (json, csv, geojson):
        _is_attachment(answer)
        assert_page(server.http.get(answer.url.path, headers={"X-Org-Id": "org-b"}), 404)
    plain = result(server, "plain", payload={"n": 1})
    assert_page(server.http.get(f"{plain}/download?format=csv"), 404)
    assert_page(server.http.get(f"{plain}/download?format=exe"), 400)
    assert server.http.get(f"{plain}/download").json() == {"n": 1}


def _is_attachment(answer: httpx2.Response) -> None:
    assert answer.headers["content-disposition"].startswith('attachment; filename="shown-')
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
