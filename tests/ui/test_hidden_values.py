"""What looks like a secret is hidden wherever a value is shown; and what is not as it should be breaks nothing."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from langlauf.analysis.texts import Wording
from langlauf.domain.redact import MASK, redact_json
from langlauf.ui.formats import result_facts
from langlauf.ui.language import AnalysisWords, load_language
from langlauf.ui.pages.result_comparison import changed_paths, changed_rows
from langlauf.ui.pages.result_downloads import escape_formula
from langlauf.ui.views.chart_spec import ChartAxes, ChartRefused, chart_axes, safe_spec
from langlauf.ui.views.stored_views import suggest_views

CHART = {"mark": "bar", "data": {"values": [{"a": 1}]}}


def raw(value: Any) -> Raw:
    """A value as it is written."""
    return Raw(msgspec.json.encode(value))


def test_whatever_stands_under_a_name_of_secrets_is_hidden() -> None:
    """Texts, lists and objects; numbers are no secrets, and texts that look like one are hidden anywhere."""
    given = {"secret": ["s1"], "password": {"v": "p"}, "tokens": 12, "url": "https://u:pw123@h/x", "plain": "Bern"}
    shown = redact_json(given)
    assert (shown["secret"], shown["password"], shown["tokens"], shown["plain"]) == (MASK, MASK, 12, "Bern")
    assert "pw123" not in shown["url"]


def test_a_result_at_a_glance_hides_it_too() -> None:
    """In its summary, and in the plain values of a result that has none."""
    text = '{"api_key":"xyz","rows":3,"note":"Authorization: Bearer abcdefgh12345678"}'
    words = AnalysisWords(Wording(), load_language("en"))
    for rows in (result_facts(text, None, words), result_facts(None, text, words)):
        assert {row.name: row.value for row in rows if row.name != "Note"} == {"Api key": MASK, "Rows": "3"}
        assert not [row for row in rows if "abcdefgh" in row.value]


def test_a_comparison_neither_looks_into_it_nor_tells_rows_apart_by_it() -> None:
    """A difference is told, not what it is."""
    [change] = changed_paths(raw({"secret": {"a": "x1"}}), raw({"secret": {"a": "x2"}}), without=None).listed
    assert change.name == "/secret"
    rows = changed_rows([raw({"password": "p1", "n": 1})], [raw({"password": "p2", "n": 1})], [])
    assert rows is not None
    assert rows.key == "n"


#: A chart whose labels along the x axis are measured, so that its data are read.
LABELED = {"x": {"field": "a", "type": "nominal"}}


@pytest.mark.parametrize(
    "error",
    [
        {"encoding": {"x": {"field": ["a"], "type": "nominal"}}},
        {"encoding": {"x": {"field": "a", "type": ["nominal"]}}},
        {"encoding": {"y": {"field": "a", "type": ["nominal"]}}},
        {"encoding": LABELED, "data": {"name": []}, "datasets": {"d": []}},
    ],
)
def test_a_specification_that_cannot_be_sized_is_refused_as_broken(error: dict[str, Any]) -> None:
    """Where a name or a type is a list, computing the size of the chart ends in a refusal, not in another error."""
    with pytest.raises(ChartRefused) as refused:
        safe_spec(raw({**CHART, **error}))
    assert refused.value.why == "broken"


@pytest.mark.parametrize(
    "error",
    [
        {"layer": 5},
        {"layer": None},
        {"layer": [7, "x"]},
        {"data": {"name": []}, "datasets": {"d": []}},
        {"encoding": 3, "title": {"text": 4}},
        {"encoding": {"x": 3, "y": []}, "title": [1]},
        {"encoding": LABELED, "data": {"values": 9}},
    ],
)
def test_other_errors_are_kept_for_the_program_that_draws(error: dict[str, Any]) -> None:
    """The specification is passed on with a size, unchanged otherwise; title and axes are empty or a plain name."""
    spec = {**CHART, **error}
    passed_on = safe_spec(raw(spec))
    assert {name: passed_on[name] for name in spec} == spec
    assert (passed_on["width"], passed_on["height"]) == (1072, 380)
    assert chart_axes(passed_on) == ChartAxes(title="", x="a" if error.get("encoding") == LABELED else "", y="")


def test_a_wide_result_is_not_looked_through() -> None:
    """Some of it tells what it is: among many plain values no table is looked for to the end."""
    wide = {"all": {f"k{number}": number for number in range(50_000)}, "rows": [{"a": 1}]}
    assert suggest_views(raw(wide)).table_at == "/rows"
    assert suggest_views(raw({**{f"k{number}": 0 for number in range(5_000)}, "rows": [{"a": 1}]})).table_at is None


@pytest.mark.parametrize(("text", "cell"), [("x;=1+1", "x;'=1+1"), ("a\n@b", "a\n'@b"), ("=1", "'=1"), ("a;b", "a;b")])
def test_a_cell_computes_in_no_country(text: str, cell: str) -> None:
    """Some spreadsheets begin a cell at a semicolon."""
    assert escape_formula(text) == cell
