"""Registering analyses: what cannot work is refused at once, with words that help."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from langlauf import Job, Langlauf
from langlauf.analysis.schema import InvalidInput, canonical_json, read_input
from langlauf.api.openapi.document import build_document
from langlauf.domain.errors import RegistrationError

Places = Annotated[list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(max_length=2)]


class Point(msgspec.Struct):
    """A value that can be changed."""

    x: int = 1


async def survey(job: Job, region: str, years: int = 3, mode: Literal["a", "b"] = "a") -> None:
    """Surveys a region."""


def test_the_first_analysis_is_the_default_unless_another_says_so() -> None:
    """A request that names none gets it."""
    app = Langlauf()
    app.analysis(survey)
    app.analysis(name="second")(survey)
    assert app.registry.default == "survey"
    app.analysis(name="third", default=True)(survey)
    assert app.registry.default == "third"
    with pytest.raises(RegistrationError, match="both have default"):
        app.analysis(name="fourth", default=True)(survey)


def test_the_decorator_gives_the_function_back() -> None:
    """It can still be called and tested as what it is."""
    app = Langlauf()
    assert app.analysis(survey) is survey
    assert app.analysis(name="x", timeout="30m", max_retries=1)(survey) is survey
    analysis = app.registry.get("x")
    assert analysis is not None
    assert (analysis.timeout, analysis.max_retries, analysis.description) == (1_800, 1, "Surveys a region.")


@pytest.mark.parametrize("name", ["analysis", "input", "options", "timeout_seconds"])
def test_reserved_names_are_refused(name: str) -> None:
    """A parameter may not be called like a part of a request."""
    scope: dict[str, Any] = {}
    exec(f"async def bad(job, {name}: str): ...", scope)  # noqa: S102 - the name is the parameter of this test
    with pytest.raises(RegistrationError, match=name):
        Langlauf().analysis(scope["bad"])


def test_what_cannot_work_is_refused_at_registration() -> None:
    """No handle, variable parameters, a name twice, a bad name, a plain function."""

    async def no_handle() -> None: ...

    async def variable(job: Job, *places: str) -> None: ...

    def plain(job: Job) -> None: ...

    app = Langlauf()
    app.analysis(survey)
    for bad in (no_handle, variable, survey):
        with pytest.raises(RegistrationError):
            app.analysis(bad)
    with pytest.raises(RegistrationError, match="usable name"):
        app.analysis(name="a b")(survey)
    with pytest.raises(RegistrationError, match="move it to the top"):
        app.analysis(plain)
    with pytest.raises(RegistrationError, match="api_prefix"):
        Langlauf(api_prefix="analyze/")


@pytest.mark.parametrize(
    "rules",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("inf")},
        {"max_retries": -1},
        {"max_running": 0},
        {"queue_limit": 0},
    ],
)
def test_rules_that_no_job_could_run_under_are_refused(rules: dict[str, Any]) -> None:
    """They would otherwise break every request, or every claim."""
    with pytest.raises(RegistrationError):
        Langlauf().analysis(**rules)(survey)


def test_a_default_must_fit_its_type() -> None:
    """It is stored with the job and read again."""

    async def bad(job: Job, region: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013 - the mistake

    with pytest.raises(RegistrationError, match="None"):
        Langlauf().analysis(bad)


def test_a_collection_may_be_a_default() -> None:
    """It is in the schema and in the stored input as any other, and each input has a copy of its own."""

    async def mean(
        job: Job,
        prices: list[float] = [1.0, 2.0],  # noqa: B006 - the case
        tags: Places | None = ["a"],  # noqa: B006
        of: set[int] = {3},  # noqa: B006
        at: Point = Point(),  # noqa: B008
    ) -> None: ...

    app = Langlauf()
    app.analysis(mean)
    found = app.registry.get("mean")
    assert found is not None
    kind = found.input_type
    properties = build_document(app.registry)["components"]["schemas"]["MeanInput"]["properties"]
    assert [properties[name]["default"] for name in ("prices", "tags", "of", "at")] == [
        [1.0, 2.0],
        ["a"],
        [3],
        {"x": 1},
    ]
    first, second = read_input(kind, {}), read_input(kind, {})
    assert canonical_json(first) == '{"at":{"x":1},"of":[3],"prices":[1.0,2.0],"tags":["a"]}'
    assert first.prices is not second.prices
    with pytest.raises(InvalidInput, match="at most 2"):
        read_input(kind, {"tags": ["a", "b", "c"]})


def test_two_analyses_may_share_a_function_but_not_a_title() -> None:
    """Each has its own shape in the description."""
    app = Langlauf()
    app.analysis(survey)
    app.analysis(name="survey.v2")(survey)
    shapes = build_document(app.registry)["components"]["schemas"]
    assert {"SurveyInput", "SurveyV2Input"} <= set(shapes)
    with pytest.raises(RegistrationError, match="too similar"):
        app.analysis(name="survey_v2")(survey)


def test_type_hints_make_the_input() -> None:
    """Defaults are filled in, names ordered, and errors name the field."""
    app = Langlauf()
    app.analysis(survey)
    analysis = app.registry.get("survey")
    assert analysis is not None
    kind = analysis.input_type
    assert canonical_json(read_input(kind, {"region": "CH"})) == '{"mode":"a","region":"CH","years":3}'
    for values, field in (
        ({}, "region"),
        ({"region": 1}, "region"),
        ({"region": "CH", "years": "3"}, "years"),
        ({"region": "CH", "mode": "c"}, "mode"),
        ({"region": "CH", "yeers": 3}, "yeers"),
    ):
        with pytest.raises(InvalidInput) as caught:
            read_input(kind, values)
        assert caught.value.field == field
    assert caught.value.message == "There is no parameter yeers; did you mean years?"


def test_constraints_in_hints_are_checked() -> None:
    """Annotated limits and nested lists are part of the schema, and the path leads into them."""

    async def limited(job: Job, places: Places) -> None: ...

    app = Langlauf()
    app.analysis(limited)
    analysis = app.registry.get("limited")
    assert analysis is not None
    with pytest.raises(InvalidInput) as caught:
        read_input(analysis.input_type, {"places": ["a", ""]})
    assert caught.value.field == "places[1]"
