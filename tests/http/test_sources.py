"""What a function declares as its sources, from every kind of function and on every store."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

import langlauf
from langlauf import Job, Langlauf, PermanentError, PlainJob, TransientError
from langlauf.domain.provenance import MOST_SOURCES
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores


async def reading(job: Job, place: str) -> str:
    """Declares the same twice, and again in its second attempt."""
    for _ in range(2):
        await job.source(
            "Gazetteer", version="2026-03", hash="sha256:" + "ab" * 32, url="https://example.org/gazetteer"
        )
    await job.source(f"Extract of {place}\nby hand", url="https://reader:letmein@example.org/x?token=abcdef123456")
    if place == "flaky" and job.attempt == 1:
        raise TransientError("the source is down")
    return place


def plain(job: PlainJob, place: str) -> str:
    """Declares from a process of its own."""
    job.source("Register", version=7)  # type: ignore[arg-type]  # a number is text enough
    return place


async def mapping(job: Job, tiles: list[int], fails: bool = False) -> list[int]:
    """Declares in its chunks."""
    found: list[int] = await job.map(tile, tiles)
    if fails:
        raise PermanentError("stopped half-way")
    return found


def tile(number: int) -> int:
    """A chunk has no job."""
    langlauf.source("Tiles", version="4")
    langlauf.source(f"Tile {number}")
    return number


async def greedy(job: Job, count: int) -> int:
    """Declares many."""
    for number in range(count):
        await job.source(f"Sheet {number}")
    return count


async def careless(job: Job, how: str) -> str:
    """Declares what cannot be kept."""
    if how == "chunk":
        await job.checkpoint("langlauf:source:1", str)
    elif how == "outside":
        langlauf.source("Tiles")
    else:
        await job.source(**{"name": "x", how: "x" * 2_001})
    return how


@pytest.fixture(scope="module")
def served(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose analyses declare sources."""
    folder = tmp_path_factory.mktemp("sources")
    app = Langlauf()
    for function in (reading, plain, mapping, greedy, careless):
        app.analysis(function)
    with store_under_test(store_kind, folder) as bed, live(folder, app, LANGLAUF_STORE=bed.place) as server:
        yield server


def _provenance(server: Live, job: dict[str, Any], **query: str) -> dict[str, Any]:
    answer = server.http.get(f"/analyze/results/{job['result_id']}/provenance", params=query)
    assert answer.status_code == 200, answer.text
    facts: dict[str, Any] = answer.json()["provenance"]
    return facts


def _run(server: Live, analysis: str, /, **values: Any) -> dict[str, Any]:
    job = server.wait(server.submit(analysis, **values)["job_id"])
    assert job["status"] == "completed", job
    return job


def test_sources_are_kept_once_and_without_secrets(served: Live) -> None:
    """Over two attempts, in the order in which they were declared."""
    facts = _provenance(served, _run(served, "reading", place="flaky"))
    assert facts["attempt"] == 2
    gazetteer, extract = facts["sources"]
    assert gazetteer == {
        "name": "Gazetteer",
        "version": "2026-03",
        "hash": "sha256:" + "ab" * 32,
        "url": "https://example.org/gazetteer",
    }
    assert (extract["name"], extract["version"], extract["hash"]) == ("Extract of flaky by hand", None, None)
    assert "letmein" not in extract["url"]
    assert "abcdef123456" not in extract["url"]
    assert facts["sources_complete"] is True


def test_processes_and_chunks_declare_them_too(served: Live) -> None:
    """A plain function by its job, a chunk by `langlauf.source`; what many chunks declare is there once."""
    assert [one["name"] for one in _provenance(served, _run(served, "plain", place="Bern"))["sources"]] == ["Register"]
    facts = _provenance(served, _run(served, "mapping", tiles=[1, 2, 3]))
    assert sorted(one["name"] for one in facts["sources"]) == ["Tile 1", "Tile 2", "Tile 3", "Tiles"]


def test_a_resumed_job_has_the_sources_of_its_chunks(served: Live) -> None:
    """They are not computed again, and still are what the result is made from; they count as no chunks of their own."""
    first = served.wait(served.submit("mapping", tiles=[4, 5], fails=True)["job_id"])
    assert first["status"] == "failed"
    again = served.http.post(f"/analyze/jobs/{first['job_id']}/retry").json()["job"]
    assert served.wait(again["job_id"])["status"] == "failed"
    assert served.app.runtime is not None
    reads = served.app.runtime.store.tenant("default-org")
    sources = [json.loads(entry.payload)["name"] for entry in served.run(reads.trail(again["job_id"]))]
    assert sorted(sources) == ["Tile 4", "Tile 5", "Tiles"]
    assert served.run(reads.kept_parts(again["job_id"], most=100)).count == 2


def test_more_than_the_limit_are_not_kept_and_it_says_so(served: Live) -> None:
    """The job goes on."""
    job = _run(served, "greedy", count=MOST_SOURCES + 3)
    assert "More were declared than are kept." in served.http.get(f"/results/{job['result_id']}?lang=en").text
    facts = _provenance(served, job)
    assert [one["name"] for one in facts["sources"]] == [f"Sheet {number}" for number in range(MOST_SOURCES)]
    assert facts["sources_complete"] is False
    assert _provenance(served, _run(served, "greedy", count=MOST_SOURCES))["sources_complete"] is True


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("url", "at most 2,000 characters"),
        ("hash", "at most 200 characters"),
        ("outside", "call job.source"),
        ("chunk", "must not begin with langlauf:"),
    ],
)
def test_what_cannot_be_kept_is_refused(served: Live, how: str, message: str) -> None:
    """A part of a hash or of an address would be another one."""
    job = served.wait(served.submit("careless", how=how)["job_id"])
    assert (job["status"], message in job["error_message"]) == ("failed", True), job["error_message"]


def test_a_prov_document_has_them_as_used_entities(served: Live) -> None:
    """Each is used by the job."""
    document = _provenance(served, _run(served, "reading", place="Chur"), format="prov")
    sources = {name: one for name, one in document["entity"].items() if one["prov:type"] == "ll:Source"}
    assert {one["prov:label"] for one in sources.values()} == {"Gazetteer", "Extract of Chur by hand"}
    assert set(sources) <= {one["prov:entity"] for one in document["used"].values()}


@pytest.mark.parametrize(("language", "word"), [("en", "Source"), ("de", "Quelle")])
def test_the_page_names_them(served: Live, language: str, word: str) -> None:
    """With their hash, and a link where there is one."""
    job = _run(served, "reading", place=f"Aarau-{language}")
    page = served.http.get(f"/results/{job['result_id']}?lang={language}").text
    assert f"<dt>{word}</dt>" in page
    assert '<a href="https://example.org/gazetteer" rel="noopener noreferrer">Gazetteer</a> 2026-03' in page
    assert "letmein" not in page


def test_the_key_of_a_source_is_its_hash(served: Live) -> None:
    """Recomputed here, without a line of ours."""
    job = _run(served, "plain", place="Basel")
    assert served.app.runtime is not None
    [entry] = served.run(served.app.runtime.store.tenant("default-org").trail(job["job_id"]))
    text = '{"name":"Register","version":"7","hash":null,"url":null}'
    assert entry[:2] == ("langlauf:source:" + hashlib.sha256(text.encode()).hexdigest()[:32], text)
