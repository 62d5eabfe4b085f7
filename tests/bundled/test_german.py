"""The bundled analyses in German: every title, description, field, choice, fact, step and view has a text."""

import ast
import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import langlauf.bundled
from langlauf.analysis.payload import Result
from langlauf.analysis.registry import Analysis
from langlauf.bundled import app
from langlauf.bundled.address.analysis import _summary as address_summary
from langlauf.bundled.address.analysis import stages_of
from langlauf.bundled.address.data import configured_table
from langlauf.bundled.address.presentation import views as address_views
from langlauf.bundled.address.stages import StageContext
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology
from langlauf.domain.errors import PermanentError
from langlauf.domain.result import ChartView, MarkdownView, TableView, View
from langlauf.ui.formats import in_words
from langlauf.ui.language import AnalysisWords, load_language
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
    """What it says while it runs and when it is done, and its name in the result."""
    analysis = app.registry.get("address")
    assert analysis is not None
    texts = [text for stage in stages_of("risk") for text in (stage.doing, stage.done, stage.name)]
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


#: What raises an error with a text for people, and where that text is its first argument.
_RAISERS = frozenset({"PermanentError", "TransientError", "table_error", "_bad", "_NotComparable"})


def _spelled(node: ast.expr, names: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """Every text that an expression can be, with a 7 for what comes from the input."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [[*_spelled(part, names)] for part in node.values]
        yield from ("".join(chosen) for chosen in itertools.product(*parts))
    elif isinstance(node, ast.FormattedValue):
        chosen = isinstance(node.value, ast.IfExp) or (isinstance(node.value, ast.Name) and node.value.id in names)
        yield from _spelled(node.value, names) if chosen else ["7"]
    elif isinstance(node, ast.IfExp):
        yield from (*_spelled(node.body, names), *_spelled(node.orelse, names))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for pair in itertools.product(_spelled(node.left, names), _spelled(node.right, names)):
            yield "".join(pair)
    elif isinstance(node, ast.Name):
        yield from (text for known in names[node.id] for text in _spelled(known, names))
    else:
        yield "7"


def _errors_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    names: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            texts = any(isinstance(one, ast.JoinedStr | ast.Constant) for one in (node.value, *_choices(node.value)))
            if isinstance(target, ast.Name) and texts and (isinstance(node, ast.Assign) or target.id in names):
                # An addition is another text: the last one with more behind it.
                added = isinstance(node, ast.AugAssign)
                said = ast.BinOp(names[target.id][-1], ast.Add(), node.value) if added else node.value
                names.setdefault(target.id, []).append(said)
    parameters = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RAISERS:
            text = node.args[0]
            if not (isinstance(text, ast.Name) and text.id in parameters):  # its caller has the text
                # Why a column is left out stands behind its name.
                before = "7 " if node.func.id == "_NotComparable" else ""
                yield from (before + one for one in _spelled(text, names))


def _choices(node: ast.expr) -> list[ast.expr]:
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else []


@pytest.mark.parametrize(("analysis", "fewest"), [("address", 5), ("clustering", 30), ("ontology", 3)], ids=str)
def test_every_error_is_translated(analysis: str, fewest: int) -> None:
    """All that its modules can raise, with anything in place of what the input brings."""
    known = app.registry.get(analysis)
    assert known is not None
    folder = Path(langlauf.bundled.__file__).parent / analysis
    functions = [
        node
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    texts = {text for function in functions for text in _errors_of(function)}
    assert len(texts) >= fewest
    assert sorted(text for text in texts if _missing(_words(known), text)) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"table": ""}, "Die Tabelle ist leer."),
        ({"table": "a,b\n1\n"}, "Zeile 1 (Textzeile 2) hat 1 Zelle, die Kopfzeile 2."),
        (
            {"table": "a,b\n1,x\n2,y\n3,z\n", "columns": ["c"]},
            'Die Tabelle hat keine Spalte "c"; sie hat "a", "b".',
        ),
        (
            {"table": "a,id\n5,1\n5,2\n5,3\n5,4\n"},
            'Keine Spalte lässt sich vergleichen: "a" hat in jeder Zeile denselben Wert; "id" nummeriert die Zeilen.',
        ),
        (
            {"table": "a\n1\n2\n3\n", "k_min": 5, "k_max": 3},
            "Die grösste Anzahl Gruppen (k_max) ist 3 und die kleinste (k_min) 5; k_max darf nicht kleiner sein.",
        ),
    ],
    ids=lambda one: str(one)[:30],
)
def test_errors_of_a_table_read_well(values: dict[str, Any], said: str) -> None:
    """As the analysis raises them, with rows, names and numbers in their places."""
    known = app.registry.get("clustering")
    assert known is not None
    with pytest.raises(PermanentError) as raised:
        clustering(RecordingJob(), **values)
    assert _words(known).text(str(raised.value)) == said


@pytest.mark.parametrize("analysis", ["clustering", "ontology"])
def test_every_step_is_translated(analysis: str) -> None:
    """As a run reports them."""
    known, job = app.registry.get(analysis), RecordingJob()
    assert known is not None
    if analysis == "clustering":
        clustering(job, _TABLE, k_max=3)
    else:
        ontology(job, _obo(2, range(2, 24), 7), previous=_obo(1, range(1, 20), 0))
    steps = [step for step in job.steps if step]
    assert len(steps) > 2
    said = [step for step in steps if not step.removeprefix("k = ").isdigit()]  # the same in both languages
    assert [step for step in said if _missing(_words(known), step)] == []
