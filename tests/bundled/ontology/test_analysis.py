"""The analysis as a job: every kind of change is told, one namespace after the other, against the right version."""

import re
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.analysis.payload import encode, encode_views
from langlauf.bundled.ontology import ontology
from langlauf.bundled.ontology.findings import MOST_LISTED, OTHERS
from langlauf.bundled.ontology.obo import index_from
from langlauf.domain.errors import PermanentError
from langlauf.domain.result import ChartView, MarkdownView, TableView
from tests.bundled.conftest import RecordingJob, shown_or_code
from tests.bundled.ontology.documents import AFTER, BEFORE, large
from tests.support.tiers import at_scale

_LARGEST = 64 * 1024 * 1024
_PIECES = [
    "ontology: x\n", "\n", "[Term]\n", "id: A:1\n", "id: B:2\n", "name: a\n", "is_a: A:1\n", "namespace: n\n",
    "is_obsolete: true\n", "replaced_by: A:1\n", "alt_id: A:1\n", "[Typedef]\n", "! remark\n", 'def: "d" []\n',
    'synonym: "s" EXACT []\n',
]  # fmt: skip


def run(text: str, /, job: RecordingJob | None = None, **values: Any) -> dict[str, Any]:
    """The payload of a whole run."""
    result = ontology(job or RecordingJob(), text, **values).payload
    assert isinstance(result, dict)
    return result


def test_every_kind_of_change_is_told() -> None:
    """Each change once, under its kind, with what belongs to it."""
    result = run(AFTER, previous=BEFORE)
    process, thing = {"namespace": "process"}, {"namespace": "thing"}
    assert result["changes"] == {
        "added": [thing | {"id": "D:9", "name": "footwear"}],
        "removed": [thing | {"id": "D:8", "name": "boot"}],
        "merged": [process | {"id": "D:3", "name": "strolling", "into": "D:2"}],
        "obsoleted": [thing | {"id": "D:7", "name": "shoe", "replaced_by": ["D:9"]}],
        "revived": [process | {"id": "D:6", "name": "old gait"}],
        "renamed": [process | {"id": "D:4", "name": "running fast", "before": "running"}],
        "moved": [
            process | {"id": "D:5", "name": "sprinting", "parents_added": ["D:2", "D:404"], "parents_removed": ["D:4"]}
        ],
        "redefined": [process | {"id": "D:2", "name": "walking"}],
        "synonyms_changed": [process | {"id": "D:4", "name": "running fast"}],
    }
    assert {kind: count for kind, count in result["counts"].items() if count} == dict.fromkeys(result["changes"], 1)
    compared = result["compared_with"]
    assert (compared["source"], compared["version"], compared["terms"]) == ("parameter", "2026-01", 8)
    assert (result["version"], result["first_run"], result["notes"]) == ("2026-02", False, [])
    assert result["summary"]["changes"] == 9


def test_findings_are_told() -> None:
    """A parent that is not there is found."""
    findings = run(AFTER)["findings"]
    assert findings["dangling_parents"] == {
        "count": 1,
        "listed": [{"id": "D:5", "name": "sprinting", "parent": "D:404"}],
    }
    assert {kind: each["count"] for kind, each in findings.items() if each["count"]} == {"dangling_parents": 1}


def test_a_term_that_changes_its_namespace_is_neither_added_nor_removed() -> None:
    """It is told where it is now, with where it was."""
    result = run(BEFORE.replace("id: D:5\n", "id: D:5\nnamespace: thing\n"), previous=BEFORE)
    change = {"namespace": "thing", "id": "D:5", "name": "sprinting", "before": "process"}
    assert result["changes"] == {"namespace_changed": [change]}


def test_the_first_version_says_so(job: RecordingJob) -> None:
    """Nothing is compared, terms are counted, and the index is there for the next."""
    result = run(BEFORE, job)
    assert (result["first_run"], result["compared_with"], result["changes"]) == (True, None, {})
    assert result["notes"] == ["There is no earlier version to compare with: this is the first one."]
    assert [(part["namespace"], part["terms"], part["obsolete"]) for part in result["namespaces"]] == [
        ("process", 6, 1),
        ("thing", 2, 0),
    ]
    assert "index" not in job.partials[-1], "a snapshot on the way need not carry it"
    index = index_from(result["index"])
    assert index is not None
    assert [term.id for term in index.terms] == [f"D:{number}" for number in range(1, 9)]


def test_the_last_job_is_what_is_compared_with() -> None:
    """Whether it named the ontology or left that to its document; of both the later; never another ontology's."""
    kept = run(BEFORE)
    older = run(BEFORE.replace("running", "ambling"))
    older["index"]["read_at"] = "2020-01-01T00:00:00.000+00:00"
    other = run(BEFORE.replace("ontology: demo", "ontology: other"))

    def after(named: Any, unnamed: Any) -> dict[str, Any]:
        found = {"demo": named, None: unnamed}
        return run(BEFORE, RecordingJob(earlier=lambda ontology: found[ontology]))

    for named, unnamed in ((kept, None), (None, kept), (kept, older), (older, kept), (kept, other)):
        result = after(named, unnamed)
        assert (result["summary"]["changes"], result["compared_with"]["source"]) == (0, "last_job")
    assert after(older, None)["counts"]["renamed"] == 1
    assert after(None, other)["first_run"]
    broken = after({"ontology": "demo", "index": {"format": 99}}, None)
    assert broken["first_run"]
    assert "in a form that cannot be read any more" in broken["notes"][1]


def test_a_name_given_counts_more_than_the_document() -> None:
    """It is what the next version is found by."""
    asked: list[Any] = []

    def earlier(**match: Any) -> None:
        asked.append(match)

    result = run(BEFORE, RecordingJob(earlier=earlier), ontology="mine")
    assert result["ontology"] == "mine"
    assert asked == [{"ontology": "mine"}, {"ontology": None}]
    nameless = BEFORE.replace("ontology: demo\n", "")
    assert run(nameless)["ontology"] == "d", "what most ids begin with"


def test_each_namespace_is_a_checkpoint_and_a_snapshot(job: RecordingJob) -> None:
    """Reading is kept as well, for it takes the most time."""
    run(AFTER, job, previous=BEFORE)
    assert job.ran == ["read", "previous", "namespace-0", "namespace-1", "structure"]
    assert [[part["namespace"] for part in partial["namespaces"]] for partial in job.partials] == [
        ["process"],
        ["process", "thing"],
    ]
    assert [summary["changes"] for summary in job.summaries] == [6, 9]
    assert [[view.title for view in views] for views in job.views] == [["Summary", "By namespace"]] * 2


def test_a_crashed_job_goes_on_at_the_next_namespace(job: RecordingJob) -> None:
    """What was read and compared is not read again, even where a later version has come in between."""
    found = [run(BEFORE)]
    crashed = RecordingJob(kept=job.kept, crashes_after=3, earlier=lambda **_: found[0])
    with pytest.raises(ConnectionResetError):
        run(AFTER, crashed)
    found[0] = run(AFTER)
    job.earlier = crashed.earlier
    assert run(AFTER, job)["summary"]["changes"] == 9
    assert job.ran == ["namespace-1", "structure"]


def test_namespaces_beyond_many_are_compared_together(job: RecordingJob) -> None:
    """A document that has one for each term does not make a job of ten thousand steps."""
    text = "ontology: many\n\n" + "".join(f"[Term]\nid: M:{n}\nname: t\nnamespace: n{n:03d}\n\n" for n in range(60))
    result = run(text, job)
    assert len(result["namespaces"]) == 41
    assert (result["namespaces"][-1]["namespace"], result["namespaces"][-1]["terms"]) == (OTHERS, 20)


def test_views_show_what_changed() -> None:
    """A summary in words, changes by namespace, and a table for each kind."""
    shown = ontology(RecordingJob(), AFTER, previous=BEFORE)
    summary, chart, *tables = shown.views
    assert isinstance(summary, MarkdownView)
    assert "Compared with version 2026-01, which had 8 terms:" in summary.text
    assert "- Merged: 1" in summary.text
    assert isinstance(chart, ChartView)
    assert chart.summary == "9 changes in 2 namespaces."
    told = {(value["namespace"], value["kind"]): value["count"] for value in chart.spec["data"]["values"]}
    assert told["process", "Definition or synonyms"] == 2
    assert sum(told.values()) == 9, "every kind is in a family"
    assert [table.title for table in tables] == [
        "Added (1)", "Removed (1)", "Merged (1)", "Obsoleted (1)", "Revived (1)", "Renamed (1)", "Moved (1)",
        "Definition changed (1)", "Synonyms changed (1)", "Findings",
    ]  # fmt: skip
    for table in tables:
        assert isinstance(table, TableView)
        rows = table.rows if table.at is None else shown.payload["changes"][table.at.rpartition("/")[2]]
        assert rows
        assert all(
            column.name in row and not isinstance(row[column.name], list) for column in table.columns for row in rows
        )
    first = ontology(RecordingJob(), BEFORE).views[1]
    assert isinstance(first, ChartView)
    assert (first.title, first.summary) == ("By namespace", "8 terms in 2 namespaces.")


@pytest.mark.parametrize(
    ("text", "said", "meta"),
    [
        ("a,b\n1,2\n", 'Line 1 of `text` is no OBO: "a,b"', {"line": 1}),
        ("ontology: x\n\n[Term]\nid: X:1\nname a\n", 'Line 5 of `text` is no OBO: "name a"', {"line": 5}),
        ("! a remark\n\nontology: x\r\n\r\n[Term]\r\nid: \r\n", "Line 6 of `text` is no OBO", {"line": 6}),
        ("ontology: x\n", "`text` holds no [Term].", {}),
    ],
)
def test_what_is_no_ontology_is_named_by_its_line(text: str, said: str, meta: dict[str, int]) -> None:
    """The error says which line, for people and for programs."""
    with pytest.raises(PermanentError) as caught:
        run(text)
    assert said in caught.value.message
    assert (caught.value.code, caught.value.hint, caught.value.meta) == ("bad_ontology", "check_input_and_retry", meta)
    with pytest.raises(PermanentError, match=re.escape(said.replace("`text`", "`previous`"))):
        run(BEFORE, previous=text)


@settings(deadline=None, max_examples=at_scale(200, 40))
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=6), max_size=12).map("".join))
def test_any_text_has_a_result_or_a_reason(text: str) -> None:
    """Whatever is sent as an ontology: a result that can be stored, or an error that is the text's."""
    shown = shown_or_code(lambda: ontology(RecordingJob(), text))
    assert shown == "bad_ontology" if isinstance(shown, str) else encode(shown.payload, _LARGEST)


def test_without_fastobo_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job fails for good and says what to install."""
    monkeypatch.setitem(sys.modules, "fastobo", None)
    with pytest.raises(PermanentError, match=r"pip install 'langlauf\[analyses\]'") as caught:
        run(BEFORE)
    assert caught.value.code == "missing_dependency"


def test_tens_of_thousands_of_terms_stay_small_and_quick() -> None:
    """The result has about a hundred bytes for each term, and comparing takes less time than reading."""
    terms = 20_000
    kept = run(large(terms))
    assert len(encode(kept, _LARGEST)) < 150 * terms
    job = RecordingJob(earlier=lambda ontology: kept if ontology is None else None)
    began = time.process_time()
    shown = ontology(job, large(terms, version=1))
    took = time.process_time() - began
    result = shown.payload
    assert {kind: count for kind, count in result["counts"].items() if count} == {"added": 10, "renamed": 200}
    assert len(encode(result, _LARGEST)) < 160 * terms
    assert len(encode_views(shown.views) or "") < 500_000
    assert took < 60, "seconds of the processor, and not minutes"


def test_lists_of_changes_have_an_end() -> None:
    """All are counted, the first of each namespace are listed, and the result says so."""
    added = MOST_LISTED + 50
    text = BEFORE + "\n" + "".join(f"[Term]\nid: N:{n:05d}\nname: new\nis_a: D:1\n\n" for n in range(added))
    result = run(text, previous=BEFORE)
    assert (result["counts"]["added"], len(result["changes"]["added"])) == (added, MOST_LISTED)
    assert result["notes"] == [f"{added:,} terms were added; {MOST_LISTED} of them are listed."]
