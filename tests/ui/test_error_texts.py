"""Errors and cancellations that Langlauf writes are in the page's language; those of analyses stay as they are."""

import ast
import re
from collections.abc import Iterator

import pytest

from langlauf import Job, PermanentError
from langlauf.clock import new_id
from langlauf.domain.errors import SENTENCES
from langlauf.domain.job import TOO_LATE
from langlauf.ui.language import PHRASES, load_language, phrase
from tests.support.live import GATES, Live, live, sample_app
from tests.support.server import ROOT
from tests.ui.html_page import assert_page
from tests.ui.test_lists import ended

ENGLISH = load_language("en").texts
GERMAN = {"Accept-Language": "de"}
#: The files whose phrases the pages translate. They are read, not imported: some need packages that take long to load.
_WRITERS = (
    "api/submit.py",
    "domain/outcome.py",
    "maintenance/erasure.py",
    "mcp/tasks.py",
    "service/control.py",
    "store/sqlite/end.py",
    "worker/dask/chunk_server.py",
    "worker/dask/executor.py",
    "worker/loop_guard.py",
    "worker/processes/process.py",
    "worker/runner.py",
)


def test_english_pages_say_what_is_stored() -> None:
    """The texts of the pages are the stored ones: a reader of the API and one of the page see the same sentence."""
    for name, stored in SENTENCES.items():
        assert ENGLISH[f"sentence.{name}"] == re.sub(r"(?<=\w):[^} ]*(?=})", "", stored)


def _literals(module: str) -> Iterator[str]:
    """Yield the texts of a module, with `{}` for what is put into them."""
    for node in ast.walk(ast.parse((ROOT / "src/langlauf" / module).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def test_every_phrase_of_the_pages_is_one_that_the_code_stores() -> None:
    """A phrase whose English words were changed in the code would no longer be found."""
    stored = {text for module in _WRITERS for text in _literals(module)}
    ended_by = "its process was ended by {}"
    otherwise = {
        "cancel_reason.too_late": TOO_LATE in _literals("domain/job.py"),
        "crash.signal": ended_by + "{}" in stored,
        "crash.memory": {ended_by + "{}", ", perhaps because memory ran out"} <= stored,
        "retry_reason.timed_out": SENTENCES["timed_out"].replace("{seconds:g}", "{}")
        in ENGLISH["retry_reason.timed_out"],
    }
    phrases = {key: text in stored for key, text in ENGLISH.items() if key.startswith(PHRASES)} | otherwise
    assert [key for key, found in phrases.items() if not found] == []


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (TOO_LATE, "Er war zum spätesten Startzeitpunkt noch nicht gestartet."),
        (
            "no result within 2.5 s of a synchronous request",
            "Eine synchrone Anfrage erhielt innert 2,5\u00a0s kein Resultat.",
        ),
        ("its process was ended by SIGSEGV", "sein Prozess wurde durch SIGSEGV beendet"),
        (
            "its process was ended by SIGKILL, perhaps because memory ran out",
            "sein Prozess wurde durch SIGKILL beendet, vielleicht weil der Arbeitsspeicher nicht reichte",
        ),
        ("The attempt was stopped after 3 s, its time limit.", "The attempt was stopped after 3 s, its time limit."),
        ("no longer needed", "no longer needed"),
    ],
)
def test_phrases_in_german(stored: str, shown: str) -> None:
    """Only what Langlauf stored is found."""
    assert phrase(stored, load_language("de")) == shown


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with analyses that fail in Langlauf's words, and in their own."""
    app = sample_app()

    @app.analysis(max_retries=0, timeout=0.05)
    async def endless(job: Job) -> None:
        """Never ends."""
        await GATES.wait(new_id())

    @app.analysis(max_retries=1, timeout=0.05)
    async def retried(job: Job) -> None:
        """Never ends, twice."""
        await GATES.wait(new_id())

    @app.analysis(max_retries=0)
    async def claiming(job: Job) -> None:
        """Fails with a code of Langlauf, its words, and even its facts."""
        meta = {"sentence": {"name": "timed_out", "seconds": 1}, "error_type": "ValueError", "field": "x"}
        raise PermanentError("The attempt was stopped after 3 s, its time limit.", code="timeout", meta=meta)

    settings = {"LANGLAUF_RETRY_BASE": "0.01", "LANGLAUF_MAX_RESULT": "1000000", "LANGLAUF_SYNC_LIMIT": "0.2"}
    with live(tmp_path_factory.mktemp("errors"), app, **settings) as running:
        yield running


@pytest.fixture
def org() -> str:
    """An organisation of its own."""
    return new_id()


def _german(server: Live, org: str, path: str) -> str:
    return " ".join(assert_page(server.http.get(path, headers={**GERMAN, "X-Org-Id": org})).text.split())


def test_a_timeout_is_german_wherever_it_is_read(server: Live, org: str) -> None:
    """On the job's page with its events, in the list, the inbox, the failures, and the form of the next run."""
    failed = ended(server, org, "endless")
    said = "Der Versuch wurde nach 0,05 s, seinem Zeitlimit, beendet."
    for path in (f"/jobs/{failed['job_id']}", "/jobs", "/inbox", "/errors", f"/?from={failed['job_id']}"):
        text = _german(server, org, path)
        assert said in text, path
        assert "time limit" not in text, path
    assert failed["error_message"] == "The attempt was stopped after 0.05 s, its time limit."
    assert failed["error_meta"]["sentence"] == {"name": "timed_out", "seconds": 0.05}


def test_an_attempt_that_was_tried_again_is_german_too(server: Live, org: str) -> None:
    """The event of the retry names the sentence as well."""
    text = _german(server, org, f"/jobs/{ended(server, org, 'retried')['job_id']}")
    # In the head once, and twice in the timeline and in the log: for the attempt that was retried, and for the last.
    assert text.count("Der Versuch wurde nach 0,05 s, seinem Zeitlimit, beendet.") == 5
    assert "time limit" not in text


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("large", "Der Wert hat mehr als die erlaubten 1.000.000 Bytes."),
        ("unstorable", "Der Wert lässt sich nicht speichern (/text: "),
    ],
)
def test_a_result_that_cannot_be_stored_says_so_in_german(server: Live, org: str, how: str, said: str) -> None:
    """With the numbers as German readers write them; where the flaw is stays in the words of the program."""
    assert said in _german(server, org, f"/jobs/{ended(server, org, 'failing', how=how)['job_id']}")


def test_what_an_analysis_wrote_is_never_replaced(server: Live, org: str) -> None:
    """Not by its code, not by its words; and an analysis cannot set the facts that only Langlauf writes."""
    failed = ended(server, org, "claiming")
    assert failed["error_meta"].keys() - {"trace"} == {"field"}
    text = _german(server, org, f"/jobs/{failed['job_id']}")
    assert "The attempt was stopped after 3 s, its time limit." in text
    assert "seinem Zeitlimit" not in text


def test_an_unexpected_exception_is_a_fact_of_the_record(server: Live, org: str) -> None:
    """Its type is in error_meta; an error that the analysis raised on purpose has none."""
    assert ended(server, org, "failing", how="bug")["error_meta"]["error_type"] == "RuntimeError"
    assert "error_type" not in (ended(server, org, "failing", how="permanent")["error_meta"] or {})


def test_a_cancellation_by_the_system_is_german(server: Live, org: str) -> None:
    """Its reason is one of a closed list; the reason of a person stays."""
    body = {"analysis": "gated", "input": {"gate": new_id()}}
    headers = {"X-Org-Id": org}
    late = server.http.post("/analyze", json=body, headers=headers)
    assert late.status_code == 504
    canceled = server.wait(late.json()["job_id"], org)
    assert canceled["canceled_by"] == "system"
    for path in ("/jobs", f"/jobs/{canceled['job_id']}"):
        assert "Eine synchrone Anfrage erhielt innert" in _german(server, org, path)
