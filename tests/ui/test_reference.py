"""The API reference and the pages of the error codes."""

import pytest

from langlauf.api.operations import OPERATIONS
from langlauf.problems import JOB_TITLES, TITLES
from langlauf.ui.language import load_language
from langlauf.ui.pages.public import JOB_PROBLEM_CODES, PROBLEM_CODES
from langlauf.ui.pages.reference import schemas_with_own_page
from tests.support.live import Live
from tests.ui.html_page import assert_page


def test_the_reference_has_every_operation(server: Live) -> None:
    """Each with its place, its summary, its parameters and its error codes; and the document itself."""
    made = assert_page(server.http.get("/docs"))
    ids = {attributes.get("id") for _, attributes in made.elements}
    code, text, links = made.text_of("code"), made.text, set(made.links())
    document = server.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        assert path in code
        for described in methods.values():
            assert f"op-{described['operationId']}" in ids
            assert all(one["name"] in code for one in described["parameters"])
    for operation in OPERATIONS:
        assert operation.summary in text
        for codes in operation.all_problems().values():
            assert {f"./problems/{code}" for code in codes} <= links
    assert "./openapi.json" in links


def test_the_reference_has_every_schema(server: Live) -> None:
    """Every type that is named is explained on the page, which `page` checks by its anchors."""
    made = assert_page(server.http.get("/docs"))
    ids = {attributes.get("id") for _, attributes in made.elements}
    schemas = set(server.http.get("/openapi.json").json()["components"]["schemas"]) - schemas_with_own_page()
    assert {f"schema-{name}" for name in schemas} <= ids
    assert "Fields of echo, flat" in made.text_of("caption")


def test_the_list_of_problems_has_every_code(server: Live) -> None:
    """Those of requests and those of jobs."""
    assert set(TITLES) | set(JOB_PROBLEM_CODES) == set(PROBLEM_CODES)
    links = assert_page(server.http.get("/problems")).links()
    assert {f"./problems/{code}" for code in PROBLEM_CODES} <= set(links)


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("code", PROBLEM_CODES)
def test_every_code_has_a_page(server: Live, code: str, language: str) -> None:
    """What it means and what to do next."""
    texts = load_language(language).texts
    made = assert_page(server.http.get(f"/problems/{code}?lang={language}"))
    assert texts[f"problem.{code}.title"] == made.text_of("h1")
    assert code in made.text_of("code")


def test_titles_are_those_of_the_api() -> None:
    """The page of a code is headed by what the API says."""
    texts = load_language("en").texts
    known = {**TITLES, **JOB_TITLES}
    assert {code: texts[f"problem.{code}.title"] for code in known} == known


def test_a_code_that_nobody_knows_is_not_found(server: Live) -> None:
    """As a page, without a key."""
    assert "Page not found" in assert_page(server.http.get("/problems/nope"), 404).text_of("h1")
