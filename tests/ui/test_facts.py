"""Facts and tables as people read them: labels, units and order, numbers by locale, zero facts quiet, large results."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from langlauf import Job, Langlauf, PermanentError, Result, views
from langlauf.analysis.texts import Wording
from langlauf.ui.formats import UNKNOWN, ShownFact, in_words, result_facts, summary_facts
from langlauf.ui.language import AnalysisWords, load_language, region_for
from langlauf.ui.views.stored_views import suggest_views
from langlauf.ui.views.table import member_sizes, readable_table, table_data
from tests.support.live import live
from tests.ui.html_page import assert_page

ENGLISH, GERMAN = load_language("en"), load_language("de")
WORDS = AnalysisWords(Wording(), ENGLISH)


def raw(value: Any) -> Raw:
    """A value as it is stored."""
    return Raw(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("accepted", "code", "number", "small"),
    [
        ("en-GB", "en", "1,234,567.5", "2026"),
        ("de-CH,de;q=0.9", "de", "1’234’567.5", "2026"),  # noqa: RUF001 - as it is written there
        ("de-DE,de;q=0.9", "de", "1.234.567,5", "2026"),
        ("de", "de", "1.234.567,5", "2026"),
        ("de-AT", "de", "1\u202f234\u202f567,5", "2026"),
        ("en-CH", "de", "1’234’567.5", "2026"),  # noqa: RUF001 - as it is written there
        ("fr, en;q=0.1", "en", "1,234,567.5", "2026"),
        ("", "de", "1.234.567,5", "2026"),
    ],
)
def test_numbers_are_written_as_the_reader_does(accepted: str, code: str, number: str, small: str) -> None:
    """By language and region; four digits may be a year, and an exponent stays."""
    language = replace(load_language(code), region=region_for(code, accepted))
    assert language.number("1234567.5") == number
    assert language.number("2026") == small
    assert language.number("-1.5e300") == "-1.5e300"
    assert language.rewrite_number("1,234,567.5") == number
    assert language.rewrite_number("v1.2.3") == "v1.2.3"


def test_names_of_programs_become_words() -> None:
    """As a person would write them."""
    names = ("people_within_25_km", "bestK", "k", "_", "share-of-rows")
    assert [in_words(name) for name in names] == ["People within 25 km", "Best K", "K", "_", "Share of rows"]


def test_facts_have_labels_units_and_the_order_of_the_analysis() -> None:
    """Then come all others, in words; numbers are grouped, ids and years are not, and long decimals are rounded."""
    facts = (views.fact("area", "Area", unit="km²"), views.fact("missing", "Missing"))
    words = AnalysisWords(Wording(facts=facts), ENGLISH)
    summary = '{"people":1234567,"row_id":1234567,"area":51.62345,"small":0.000123456,"ok":true,"codes":["a","b"]}'
    assert summary_facts(summary, words) == [
        ShownFact(name="Area", value="51.623", unit="km²", exact="51.62345"),
        ShownFact(name="People", value="1,234,567"),
        ShownFact(name="Row id", value="1234567"),
        ShownFact(name="Small", value="0.000123", exact="0.000123456"),
        ShownFact(name="Ok", value="yes"),
        ShownFact(name="Codes", value="a, b"),
    ]


def test_a_fact_that_says_nothing_is_quiet() -> None:
    """Zero, nothing and an empty text."""
    facts = summary_facts('{"a":0,"b":null,"c":"","d":[],"e":1,"f":0.0}', WORDS)
    assert [(fact.value, fact.quiet) for fact in facts] == [
        ("0", True), (UNKNOWN, True), ("", True), ("[]", True), ("1", False), ("0.0", True),
    ]  # fmt: skip


def test_a_summary_is_read_however_it_is_built() -> None:
    """Anything but an object is one fact; digits are kept, long texts and many facts are cut."""
    assert [fact.value for fact in summary_facts('"text"', WORDS)] == ["text"]
    assert [fact.value for fact in summary_facts("[1]", WORDS)] == ["1"]
    assert [fact.value for fact in summary_facts('{"id":12345678901234567890}', WORDS)] == ["12345678901234567890"]
    assert summary_facts(None, WORDS) == []
    assert len(summary_facts(f'{{"a": "{"x" * 1_000}"}}', WORDS)[0].value) == 500
    assert len(summary_facts("{" + ",".join(f'"k{n}": 1' for n in range(80)) + "}", WORDS)) == 50


def test_a_result_without_a_summary_is_shown_by_its_own_values() -> None:
    """The summary it was stored with, its own `summary`, or its plain values; nothing where there is nothing plain."""

    def shown(summary: str | None, payload: str | None) -> list[tuple[str, str]]:
        return [(fact.name, fact.value) for fact in result_facts(summary, payload, WORDS)]

    assert shown('{"n": 1}', '{"summary": {"m": 2}}') == [("N", "1")]
    assert shown(None, '{"a": 1, "summary": {"m": 2}}') == [("M", "2")]
    assert shown(None, '{"a": "x", "b": [1], "c": {}, "d": null}') == [("A", "x"), ("D", UNKNOWN)]
    assert [shown(None, payload) for payload in (None, "[1]", '"text"', "{}")] == [[], [], [], []]


def test_numbers_of_a_column_are_grouped_alike_and_aligned_by_their_decimals() -> None:
    """What is missing behind a number is drawn and not written; headings are words."""
    rows = [raw({"people": 1234, "area_km2": 1.25, "id": 12345}), raw({"people": 12345, "area_km2": 3, "id": 1})]
    table = readable_table(table_data(rows, []), AnalysisWords(Wording(), GERMAN))
    assert [column.title for column in table.columns] == ["People", "Area km2", "Id"]
    assert [[(cell.text, cell.pad) for cell in row] for row in table.rows] == [
        [("1.234", ""), ("1,25", ""), ("12345", "")],
        [("12.345", ""), ("3", ",00"), ("1", "")],
    ]


def test_a_large_result_still_suggests_its_table_and_says_what_is_large() -> None:
    """It is read once, whatever its size."""
    rows = [{"n": number, "text": "x" * 200} for number in range(50_000)]
    payload = raw({"few": [{"a": 1}], "rows": rows, "note": "y"})
    assert suggest_views(payload).table_at == "/rows"
    sizes = member_sizes(payload)
    assert [(one.name, one.kind, one.count) for one in sizes] == [
        ("rows", "list", 50_000), ("few", "list", 1), ("note", "text", None),
    ]  # fmt: skip


app = Langlauf()
_GERMAN_TEXTS = {
    "Count rows": "Zeilen zählen",
    "Counts all rows.": "Zählt alle Zeilen.",
    "Rows in all": "Zeilen insgesamt",
    "Read {} rows": "{} Zeilen gelesen",
    "quiet": "ruhig",
    "Street": "Strasse",
    "At {}": "Bei {}",
    "How many": "Wie viele",
}


@app.analysis(title="Count rows", facts=[views.fact("rows", "Rows in all")], texts={"de": _GERMAN_TEXTS})
async def count(job: Job, how_many: int = 2_000) -> Result:
    """Counts all rows."""
    rows = [{"number": number, "text": "x" * 300} for number in range(how_many)]
    shown = [
        views.markdown(f"- Read {how_many:,} rows\n- As given", title="At noon"),
        views.table([{"street": "a", "level": "quiet"}], columns={"street": "Street", "level": "Level"}),
    ]
    return Result({"rows": rows}, summary={"rows": 123456, "bad": 0}, views=shown)


def test_a_page_shows_the_texts_of_an_analysis_in_german_and_previews_a_large_result(tmp_path: Any) -> None:
    """Titles, facts, tables, Markdown and the form; what has no translation stays as it is."""
    with live(tmp_path, app) as server:
        job = server.wait(server.submit("count")["job_id"])
        path = f"/results/{job['result_id']}"
        made = assert_page(server.http.get(path, headers={"Accept-Language": "de-CH"}))
        for text in ("Zeilen zählen", "Zeilen insgesamt", "123’456", "2’000 Zeilen gelesen", "As given", "Bei noon"):  # noqa: RUF001
            assert text in made.text, text
        for text in ("ruhig", "Strasse", "Level", "Grösse jedes Schlüssels", "Die ersten 200 von 2000 Zeilen"):
            assert text in made.text, text
        english = assert_page(server.http.get(path, headers={"Accept-Language": "en-GB"}))
        assert "Rows in all" in english.text
        assert "123,456" in english.text
        form = assert_page(server.http.get("/?lang=de"))
        for text in ("Zählt alle Zeilen.", "Wie viele"):
            assert text in form.text, text


@app.analysis(
    title="Stumble", texts={"de": {"At {}": "Bei {}", "Row {} is missing.": "Zeile {} fehlt.", "noon": "Mittag"}}
)
async def stumble(job: Job) -> None:
    """Stops half-way."""
    await job.progress(10, "At noon")
    await job.partial({"rows": 1})
    raise PermanentError("Row 7 is missing.")


def test_steps_and_errors_are_in_german_wherever_a_page_shows_them(tmp_path: Any) -> None:
    """The job with its log and timeline, lists, inbox, the interim result, and the form of the next run."""
    with live(tmp_path, app) as server:
        job = server.wait(server.submit("stumble")["job_id"])
        shown = [f"/jobs/{job['job_id']}", "/jobs", "/inbox", f"/results/{job['result_id']}", f"/?from={job['job_id']}"]
        for path in shown:
            made = assert_page(server.http.get(path, headers={"Accept-Language": "de"}))
            assert "Zeile 7 fehlt." in made.text, path
            # The line of the code and its trace stay as they are.
            english = made.text.replace('PermanentError("Row 7 is missing.")', "")
            assert "Row 7 is missing." not in english.replace("PermanentError: Row 7 is missing.", ""), path
            assert "Row 7 is missing." in assert_page(server.http.get(path, headers={"Accept-Language": "en"})).text
        log = server.http.get(shown[0], headers={"Accept-Language": "de"}).text.partition('id="part-events"')[2]
        assert "<span>Bei Mittag</span>" in log
        assert "At noon" not in log
