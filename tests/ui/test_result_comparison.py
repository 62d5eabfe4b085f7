"""Versions of a result: one by its number, and two of them compared."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from langlauf.analysis.texts import Wording
from langlauf.clock import new_id
from langlauf.domain.result import Column, Fact
from langlauf.ui.language import AnalysisWords, load_language
from langlauf.ui.pages import result_comparison as comparing
from langlauf.ui.pages.result_comparison import changed_paths, changed_rows, comparable, field_label
from langlauf.ui.views.raw_json import items, parse_raw
from langlauf.ui.views.stored_views import RawTableView
from tests.support.live import GATES, Live, live
from tests.support.view_samples import ATTACK, showing_app
from tests.ui.html_page import assert_page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with an analysis that has three versions."""
    with live(tmp_path_factory.mktemp("compared"), showing_app()) as running:
        yield running


@pytest.fixture(scope="module")
def address(server: Live) -> str:
    """The address of its result."""
    gate = new_id()
    GATES.open(gate)
    job = server.wait(server.submit("growing", gate=gate)["job_id"])
    return f"/results/{job['result_id']}"


def rows(before: Any, after: Any) -> Any:
    """Two tables compared."""
    return changed_rows(items(parse_raw(json.dumps(before))), items(parse_raw(json.dumps(after))), [])


def paths(before: Any, after: Any, without: str | None = None) -> list[tuple[str, str | None, str | None]]:
    """Two values compared."""
    found = changed_paths(parse_raw(json.dumps(before)), parse_raw(json.dumps(after)), without=without)
    return [
        (one.name, one.before.text if one.before else None, one.after.text if one.after else None)
        for one in found.listed
    ]


def test_rows_are_told_apart_by_a_key_or_by_position() -> None:
    """A column of its own for each row, if possible one that sounds like it; else the place in the list."""
    found = rows([{"v": 1, "id": 7}, {"v": 1, "id": 8}], [{"v": 2, "id": 8}, {"v": 1, "id": 9}])
    assert found.key == "id"
    assert [(one.what, one.key) for one in found.listed] == [("removed", "7"), ("changed", "8"), ("added", "9")]
    [field] = found.listed[1].fields
    assert (field.name, field.before.text, field.after.text) == ("v", "1", "2")
    assert rows([{"a": 1, "b": 1}], [{"a": 1, "b": 2}]).key == "a"
    by_place = rows([[1, 1], [1, 2]], [[1, 1], [1, 1]])
    assert (by_place.key, [(one.what, one.key) for one in by_place.listed]) == ("", [("changed", "2")])
    assert rows([{"a": 1}], [{"a": 1}]).count == 0
    assert rows([], []).count == 0


def test_comparing_rows_is_bounded() -> None:
    """Too many are not compared; of many differences the first are listed, and all are counted."""
    assert rows([], [1] * (comparing.MAX_COMPARED_ROWS + 1)) is None
    many = rows([], [{"id": n} for n in range(500)])
    assert (many.added, len(many.listed)) == (500, comparing.MAX_LISTED_CHANGES)


def test_values_are_compared_where_they_stand() -> None:
    """By their pointer; digits count, and what is compared as a table is left out."""
    assert paths({"a": {"b": 1, "c": [1, 2]}, "d": 1}, {"a": {"b": 2, "c": [1, 2, 3]}, "e": "x"}) == [
        ("/a/b", "1", "2"), ("/a/c/2", None, "3"), ("/d", "1", None), ("/e", None, "x"),
    ]  # fmt: skip
    assert paths({"rows": [1], "n": 1}, {"rows": [2], "n": 1}, "/rows") == []
    assert paths([1], {"0": 1}) == [("/", "[1]", '{"0": 1}')]
    assert paths({"secret": "a"}, {"secret": "b"}) == [("/secret", "", "")]
    found = changed_paths(parse_raw(json.dumps(list(range(999)))), parse_raw(json.dumps([-1] * 999)), without=None)
    assert (len(found.listed), found.complete) == (comparing.MAX_LISTED_CHANGES, False)


def test_paths_are_told_in_words() -> None:
    """The label of the fact, or the name as people write it; items of a list are counted from 1."""
    wording = Wording(
        facts=(Fact(key="risk_score", label="Score"),), texts={"de": {"Summary": "Überblick"}}, patterns={"de": []}
    )
    words = AnalysisWords(wording, load_language("de"))
    assert field_label("/summary/risk_score", words) == "Überblick: Score"
    assert field_label("/parse/hints/0", words) == "Parse: Hints: 1"
    assert field_label("/", words) == "/"


def test_different_tables_are_not_compared_by_rows() -> None:
    """Neither another place in the result nor other columns: there only values are compared."""

    def table(at: str, *names: str) -> RawTableView:
        return RawTableView(at=at, columns=[Column(name=name) for name in names])

    assert comparable(table("/rows", "a", "b"), table("/rows", "b", "a"))
    assert not comparable(table("/rows", "a"), table("/rows", "b"))
    assert not comparable(table("/rows", "a"), table("/others", "a"))


def test_two_runs_with_the_same_result_are_said_to_be_the_same(server: Live) -> None:
    """In a sentence, beside what differs in their inputs."""
    one, other = (server.wait(server.submit("repeated")["job_id"]) for _ in range(2))
    made = assert_page(server.http.get(f"/results/{one['result_id']}/diff?with={other['result_id']}"))
    assert "The results of both runs are the same." in made.text
    assert "Added: 0" not in made.text


def test_an_interim_result_in_a_comparison_of_runs_is_named(server: Live) -> None:
    """A failed run has only that: its page and the comparison say so, in both languages; of two final ones nothing."""
    failed = server.wait(server.submit("failing", how="permanent")["job_id"])
    again = server.http.post(f"/analyze/jobs/{failed['job_id']}/retry", json={}).json()["job"]
    server.wait(again["job_id"])
    page = assert_page(server.http.get(f"/jobs/{failed['job_id']}"))
    assert "Compare with an interim result" in page.text
    assert "Compare the results of both" not in page.text
    address = f"/results/{failed['result_id']}/diff?with={server.job(again['job_id'])['result_id']}"
    compared = assert_page(server.http.get(address)).text
    assert "Earlier run: this job has no final result." in compared
    assert "Later run: this job has no final result." in compared
    german = assert_page(server.http.get(address, headers={"Accept-Language": "de"})).text
    assert "Früherer Lauf: Dieser Job hat kein Endresultat." in german
    one, other = (server.wait(server.submit("repeated")["job_id"])["result_id"] for _ in range(2))
    assert "no final result" not in assert_page(server.http.get(f"/results/{one}/diff?with={other}")).text


def test_a_version_has_an_address(server: Live, address: str) -> None:
    """Exactly that one, also after later ones; there is none of a number that was not written."""
    made = assert_page(server.http.get(f"{address}/v/1"))
    assert "Version 1 of 3" in made.text
    assert "Interim result · v1" in made.text
    assert "2 rows" in made.text
    rail = [one for one in made.all("a") if one.get("title") in ("Interim result", "Final result")]
    assert [one.get("aria-current") for one in rail] == [None, None, "page"]
    for number in ("4", "0", "x", "1e3", "99999999999"):
        assert_page(server.http.get(f"{address}/v/{number}"), 404)
    assert_page(server.http.get(f"{address}/v/1", headers={"X-Org-Id": "org-b"}), 404)


def test_two_versions_are_compared(server: Live, address: str) -> None:
    """Rows by their key, and values elsewhere; by default the newest with the one before."""
    made = assert_page(server.http.get(f"{address}/diff?from=1&to=2"))
    assert "From v1 to v2" in made.text_of("h1")
    assert "Added: 1. Removed: 0. Changed: 1." in made.text
    assert "No other differences." in made.text
    newest = assert_page(server.http.get(f"{address}/diff"))
    assert "From v2 to v3" in newest.text_of("h1")
    assert "Added: 0. Removed: 2. Changed: 0." in newest.text
    assert ATTACK in newest.text
    german = assert_page(server.http.get(f"{address}/diff?from=1&to=2&lang=de"))
    assert "?from=1&to=2&lang=en" in german.links()
    for error, status in (("from=x", 400), ("to=0", 400), ("from=9", 404)):
        assert_page(server.http.get(f"{address}/diff?{error}"), status)
    assert_page(server.http.get(f"{address}/diff", headers={"X-Org-Id": "org-b"}), 404)


def test_how_it_was_made_is_told(server: Live, address: str) -> None:
    """What was asked for, by which job, in how many attempts, and how long it is kept."""
    made = assert_page(server.http.get(address))
    for words in ("How this came about", '"gate": "', "growing", "Kept until", "Finished", "Duration"):
        assert words in made.text
    assert made.text_of("h1") == "Result: growing"
    assert [link for link in made.links() if "?from=" in link], "the way to change the input"


def test_a_result_says_what_it_is_about(server: Live) -> None:
    """The first short text that its analysis asks for, whatever the order in which it is stored."""

    def subject(analysis: str, **values: Any) -> list[str]:
        job = server.wait(server.submit(analysis, **values)["job_id"])
        made = assert_page(server.http.get(f"/results/{job['result_id']}"))
        return [text for text in ("basic", "Bern", "a b") if f"Result: {analysis} · {text} " in made.text]

    assert subject("echo", query="Bern") == ["Bern"]
    assert subject("echo", query="a\nb") == []
    assert subject("plain", payload="a b") == ["a b"]
    assert subject("plain", payload=["Bern"]) == []


def test_a_final_result_that_is_the_last_interim_one_is_said_so(server: Live) -> None:
    """Instead of counting no changes."""
    job = server.wait(server.submit("repeated")["job_id"])
    made = assert_page(server.http.get(f"/results/{job['result_id']}/diff?from=1&to=2"))
    assert "the final result is the same" in made.text
    assert "Added: 0" not in made.text
