"""What an author gives people to read: titles, labels of jobs, facts, and all of it in other languages."""

from typing import Any

import pytest

from langlauf import Job, Langlauf, views
from langlauf.analysis.texts import clean_label
from langlauf.domain.errors import RegistrationError


async def survey(job: Job, region: str, years: int = 3, codes: list[str] | None = None, token: str = "") -> None:
    """Counts."""


def _registered(**words: Any) -> Any:
    app = Langlauf()
    app.analysis(**words)(survey)
    return app.registry.get("survey")


@pytest.mark.parametrize(
    ("label", "values", "shown"),
    [
        ("{region}", {"region": "Bern"}, "Bern"),
        ("{region}, {years} years", {"region": "Bern"}, "Bern, 3 years"),
        ("{region}: {codes}", {"region": "Bern", "codes": ["a", "b"]}, "Bern: a, b"),
        ("{codes}", {"region": "Bern"}, None),
        ("", {"region": "Bern"}, None),
        ("{region}", {"region": " a\n\x1b[1m b\u202e "}, "a [1m b"),
        ("{region}", {"region": "redis://:made-up@cache"}, "redis://:[redacted]@cache"),
        ("{region}", {"region": "x" * 4_000}, "x" * 119 + "…"),
    ],
)
def test_a_label_is_filled_from_the_input_on_one_line_without_secrets(
    label: str, values: dict[str, Any], shown: str | None
) -> None:
    """It is stored, listed and mailed."""
    analysis = _registered(label=label)
    assert analysis.wording.label_of(analysis.input_type(**values)) == shown


def test_a_given_label_is_cleaned_too() -> None:
    """Nothing may be left of it."""
    assert clean_label("\x00\n ") is None
    assert clean_label("a\tb") == "a b"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"label": "{place}"}, "not a parameter; parameters are: region"),
        ({"label": "{region.__class__}"}, "not a parameter"),
        ({"label": "{region:>1000000}"}, "not a parameter"),
        ({"label": "{"}, "must look like"),
        ({"label": "{token}"}, "looks like a secret"),
        ({"title": "x" * 200}, "at most 120"),
        ({"facts": ["rows"]}, "views.fact"),
        ({"texts": {"German": {}}}, "dict of languages"),
        ({"texts": {"de": {"a": 1}}}, "both must be texts"),
        ({"texts": {"de": {"{} a": "{} {} b"}}}, "as many {} or fewer"),
        ({"texts": {"de": {"{} {}": "{} {}"}}}, "every text"),
    ],
)
def test_words_that_no_page_could_show_are_refused_at_registration(words: dict[str, Any], why: str) -> None:
    """The author reads what to write instead."""
    with pytest.raises(RegistrationError, match=why):
        _registered(**words)


def test_texts_are_looked_up_whole_or_by_pattern() -> None:
    """The pattern with the most words of its own wins; its parts are translated too, or written by the page."""
    texts = {
        "Around {}": "Rund um {}",
        "Around {} in {}": "Rund um {} in {}",
        "the lake": "den See",
        "{} rows": "{} Zeilen",
    }
    wording = _registered(texts={"de": texts}).wording
    assert wording.translate("the lake", "de") == "den See"
    assert wording.translate("Around the lake", "de") == "Rund um den See"
    assert wording.translate("Around Bern in Switzerland", "de") == "Rund um Bern in Switzerland"
    assert wording.translate("1,234 rows", "de", lambda part: part.replace(",", ".")) == "1.234 Zeilen"
    assert wording.translate("The lake", "de") == "The lake"
    assert wording.translate("the lake", "fr") == "the lake"


def test_a_fact_has_a_key_a_label_and_a_unit() -> None:
    """As pages show it."""
    [fact] = _registered(facts=[views.fact("area_km2", "Area", unit="km²")]).wording.facts
    assert (fact.key, fact.label, fact.unit) == ("area_km2", "Area", "km²")


def test_an_analysis_without_words_is_called_by_its_name() -> None:
    """Nothing has to be given."""
    assert _registered().title == "survey"
    assert _registered(title="Survey a region").title == "Survey a region"
