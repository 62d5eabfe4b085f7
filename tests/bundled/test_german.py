"""The bundled analyses in German: every title, description, field, choice, fact, step and view has a text."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from langlauf.analysis.payload import Result
from langlauf.analysis.registry import Analysis
from langlauf.bundled import app
from langlauf.bundled.address.analysis import _summary as address_summary
from langlauf.bundled.address.analysis import stages_of
from langlauf.bundled.address.context import StageContext
from langlauf.bundled.address.data import configured_table
from langlauf.bundled.address.views import views as address_views
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology
from langlauf.domain.view import ChartView, MarkdownView, TableView, View
from langlauf.ui.analysis_texts import AnalysisWords
from langlauf.ui.formatting import in_words
from langlauf.ui.language import load_language
from langlauf.ui.pages.submit_form import analysis_card
from tests.bundled.conftest import RecordingJob

GERMAN = load_language("de")
#: Words that are the same in both languages, and texts that the input or the gazetteer brings.
_SAME = frozenset({"", "JSON", "height", "width", "kind", "demo"})
random.seed(3)
_TABLE = "height,width,kind\n" + "\n".join(
    f"{random.gauss(middle, 0.4):.2f},{random.gauss(10 - middle, 0.5):.2f},{'abc'[row % 3]}"
    for middle in (1, 4, 8)
    for row in range(12)
)


def _obo(version: int, terms: range, mark: int) -> str:
    frames = (
        f"[Term]\nid: D:{n}\nname: term {n}{' new' if mark and n % mark == 0 else ''}\nnamespace: part\n"
        + (f"is_a: D:{n // 2}\n" if n > 1 else "")
        for n in terms
    )
    return f"format-version: 1.2\ndata-version: {version}\nontology: demo\n\n" + "\n".join(frames)


def _missing(words: AnalysisWords, text: str) -> bool:
    """Whether a text stays English: none of the translations stands for it."""
    known = words.wording.texts["de"]
    return text not in _SAME and text not in known and words.text(text) == text and not text.replace(" ", "").isdigit()


def _words(analysis: Analysis) -> AnalysisWords:
    return AnalysisWords(analysis.wording, GERMAN)


@pytest.mark.parametrize("analysis", list(app.registry), ids=lambda one: one.name)
def test_every_text_of_a_form_and_every_fact_is_translated(analysis: Analysis) -> None:
    """Title, description, fields, their descriptions, choices and the labels of facts."""
    card = analysis_card(analysis, is_default=True)
    texts = [analysis.title, card.headline, *card.paragraphs, *(fact.label for fact in analysis.wording.facts)]
    for field in card.form_fields:
        texts += [field.label, field.description, *(choice.label for choice in field.choices if choice.label)]
    assert [text for text in texts if _missing(_words(analysis), text)] == []


def test_every_stage_of_an_address_is_translated() -> None:
    """Its name and what it says when it is done."""
    analysis = app.registry.get("address")
    assert analysis is not None
    texts = [text for stage in stages_of("risk") for text in (f"Stage {stage.name}", stage.done, stage.name)]
    assert [text for text in texts if _missing(_words(analysis), text)] == []


def _texts_of(view: View) -> Iterator[str]:
    yield view.title
    if isinstance(view, TableView):
        yield from (column.title for column in view.columns)
    elif isinstance(view, MarkdownView):
        yield from (line.removeprefix("- ") for line in view.text.split("\n"))
    elif isinstance(view, ChartView):
        yield view.summary
        yield from _titles(view.spec)
        yield from (in_words(name) for row in view.spec["data"]["values"] for name in row)


def _titles(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (one for name, one in part.items() if name == "title" and isinstance(one, str))
        for name, one in part.items():
            if name != "data":
                yield from _titles(one)
    elif isinstance(part, list):
        for one in part:
            yield from _titles(one)


def _result(name: str) -> Result:
    if name == "clustering":
        return clustering(RecordingJob(), _TABLE, k_max=4)
    if name == "ontology":
        return ontology(RecordingJob(), _obo(2, range(2, 24), 7), previous=_obo(1, range(1, 20), 0))
    results: dict[str, Any] = {}
    for stage in stages_of("risk"):
        results[stage.name] = stage.run(StageContext("Bundesplatz 3, 3005 Bern", configured_table(), dict(results)))
    return Result({"summary": address_summary(results)}, views=address_views(results))


@pytest.mark.parametrize("analysis", list(app.registry), ids=lambda one: one.name)
def test_every_view_and_every_key_of_a_summary_is_translated(analysis: Analysis) -> None:
    """As the analyses make them from small inputs."""
    made = _result(analysis.name)
    texts = [text for view in made.views for text in _texts_of(view)]
    assert len(texts) > 10
    assert [text for text in texts if _missing(_words(analysis), text)] == []
    assert set(made.payload["summary"]) <= {fact.key for fact in analysis.wording.facts}
