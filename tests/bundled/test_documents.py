"""The documents of the bundled analyses: their examples run, and their tables name what is there."""

import json
from typing import Any

import pytest

from langlauf.bundled import app
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology
from langlauf.bundled.ontology.findings import KINDS
from tests.bundled.conftest import RecordingJob
from tests.docs.pages import blocks, rows, sections, words


def holds(whole: Any, part: Any) -> bool:
    """Whether a result has everything that a shortened one shows."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and holds(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return bool(whole == part)


def shown(page: str) -> Any:
    """The result that a document shows."""
    [block] = blocks(page, "json")
    return json.loads(block.text)


def test_the_example_of_clustering_runs() -> None:
    """The table of the page gives the result of the page."""
    page = "docs/analyses/clustering.md"
    [table] = blocks(page, "csv")
    result = clustering(RecordingJob(), table.text, k_max=5).payload
    assert holds(result, shown(page)), json.dumps(result)


def test_the_example_of_ontology_runs() -> None:
    """The second document of the page, sent after the first, gives the result of the page."""
    page = "docs/analyses/ontology.md"
    before, after = blocks(page, "obo")
    kept = ontology(RecordingJob(), before.text).payload
    result = ontology(RecordingJob(earlier=lambda **_: kept), after.text).payload
    assert holds(result, shown(page)), json.dumps(result)


@pytest.mark.parametrize("name", ["address", "clustering", "ontology"])
def test_every_parameter_has_its_line(name: str) -> None:
    """In the order of the function, and none besides."""
    analysis = app.registry.get(name)
    assert analysis is not None
    documented = [word for row in rows(sections(f"docs/analyses/{name}.md")["Parameters"]) for word in words(row[0])]
    assert documented == list(analysis.input_type.__struct_fields__)


def test_every_kind_of_change_is_explained() -> None:
    """The table has all of them in the order of the code."""
    table = rows(sections("docs/analyses/ontology.md")["What is compared"])
    assert [word for row in table for word in words(row[0])] == list(KINDS)


@pytest.mark.parametrize("name", ["clustering", "ontology"])
def test_every_key_of_the_result_is_explained(name: str) -> None:
    """Whatever stands at the top of a result is in the table."""
    page = f"docs/analyses/{name}.md"
    results = {
        "clustering": lambda: clustering(RecordingJob(), blocks(page, "csv")[0].text, k_max=2),
        "ontology": lambda: ontology(RecordingJob(), blocks(page, "obo")[0].text),
    }
    documented = [word for row in rows(sections(page)["Result"]) for word in words(row[0])]
    assert sorted(documented) == sorted(results[name]().payload)
