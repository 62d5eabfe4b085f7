"""How a result came about: what is named, and hashes that others can recompute."""

import hashlib
import inspect
import json
import platform
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from langlauf import Job, Langlauf, TransientError
from langlauf.domain.provenance import CodeVersion
from langlauf.store.sqlite.batch import Change
from langlauf.worker import worker
from tests.http.test_errors import assert_problem
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores
FAILED: set[str] = set()


async def survey(job: Job, region: str, years: int = 3) -> dict[str, Any]:
    """Fails once for a region that says so."""
    if region.startswith("flaky") and region not in FAILED:
        FAILED.add(region)
        raise TransientError("the source is down")
    return {"region": region, "ü": years}


async def other(job: Job, region: str) -> str:
    """Has no version of its own."""
    return region


@pytest.fixture(scope="module")
def served(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with a versioned analysis and one without a version."""
    FAILED.clear()
    app = Langlauf()
    app.analysis(version="2026.3", reuse="7d")(survey)
    app.analysis(other)
    folder = tmp_path_factory.mktemp("provenance")
    with (
        store_under_test(store_kind, folder) as bed,
        live(folder, app, LANGLAUF_STORE=bed.place, LANGLAUF_RETRY_BASE="0.01") as server,
    ):
        yield server


def _provenance(server: Live, result_id: str, **query: str) -> dict[str, Any]:
    answer = server.http.get(f"/analyze/results/{result_id}/provenance", params=query)
    assert answer.status_code == 200, answer.text
    facts: dict[str, Any] = answer.json()["provenance"]
    return facts


def test_every_hash_can_be_recomputed(served: Live) -> None:
    """Of the input, the code and the result, without a line of ours."""
    job = served.wait(served.submit("survey", region="BE")["job_id"])
    facts = _provenance(served, job["result_id"])
    given = json.dumps({"region": "BE", "years": 3}, sort_keys=True, separators=(",", ":"))
    text = f'{{"analysis":"survey","input":{given}}}'
    assert facts["input_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert facts["input"] == {"region": "BE", "years": 3}
    assert facts["code"]["code_hash"] == hashlib.sha256(inspect.getsource(survey).encode()).hexdigest()
    stored = json.dumps({"region": "BE", "ü": 3}, ensure_ascii=False, separators=(",", ":"))
    assert facts["result_sha256"] == hashlib.sha256(stored.encode()).hexdigest()
    assert (facts["code"]["version"], facts["analysis"]) == ("2026.3", "survey")
    assert (facts["code"]["python"], facts["code"]["host"]) == (platform.python_version(), socket.gethostname())
    assert [one["outcome"] for one in facts["attempts"]] == ["completed"]
    assert facts["input_hash"] in facts["citation"]


def test_a_version_stands_for_one_that_is_not_declared(served: Live) -> None:
    """It is made from the hash of the source and the package."""
    job = served.wait(served.submit("other", region="BE")["job_id"])
    code = _provenance(served, job["result_id"])["code"]
    made = hashlib.sha256(f"{code['code_hash']} {code['package'] or ''}".encode()).hexdigest()[:16]
    assert code["version"] == f"code-{made}"


def test_what_was_retried_repeated_and_reused_is_named(served: Live) -> None:
    """Attempts with their outcomes, the job that is repeated, and the one whose result was taken."""
    first = served.wait(served.submit("survey", region="flaky-1")["job_id"])
    facts = _provenance(served, first["result_id"])
    assert [one["outcome"] for one in facts["attempts"]] == ["retried", "completed"]
    assert (facts["retry_count"], facts["attempt"]) == (1, 2)
    reused = served.submit("survey", region="flaky-1")
    taken = _provenance(served, reused["result_id"])
    assert taken["reused_from"] == first["job_id"]
    assert taken["code"] == facts["code"]
    assert taken["result_sha256"] == facts["result_sha256"]
    again = served.http.post(f"/analyze/jobs/{first['job_id']}/retry").json()["job"]
    repeated = served.wait(again["job_id"])
    assert _provenance(served, repeated["result_id"])["retry_of"] == first["job_id"]


def test_it_is_also_a_prov_document(served: Live) -> None:
    """Every name that a relation uses is declared."""
    first = served.wait(served.submit("survey", region="ZH")["job_id"])
    reused = served.submit("survey", region="ZH")
    document = _provenance(served, reused["result_id"], format="prov")
    declared = {*document["entity"], *document["activity"], *document["agent"]}
    relations = ("wasGeneratedBy", "used", "wasAssociatedWith", "wasInformedBy")
    roles = {"prov:entity", "prov:activity", "prov:agent", "prov:informed", "prov:informant"}
    for relation in relations:
        for one in document[relation].values():
            assert {one[role] for role in roles & set(one)} <= declared
    assert document["prefix"]["prov"] == "http://www.w3.org/ns/prov#"
    origin = f"ll:job/{first['job_id']}"
    informants = {one["prov:informant"] for one in document["wasInformedBy"].values()}
    assert informants == {origin, f"{origin}/attempt/1"}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/prov+json", "application/prov+json"),
        ("application/prov+json, application/json;q=0.5", "application/prov+json"),
        ("application/json, application/prov+json;q=0.9", "application/json"),
        ("application/*", "application/json"),
        ("text/html", "application/json"),
    ],
)
def test_the_same_address_gives_a_bare_document_to_those_who_ask_for_one(served: Live, accept: str, kind: str) -> None:
    """By `Accept`, which caches are told of; the document is the same."""
    job = served.wait(served.submit("other", region="negotiated")["job_id"])
    path = f"/analyze/results/{job['result_id']}/provenance"
    answer = served.http.get(path, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert "Accept" in answer.headers["vary"].split(", ")
    assert answer.headers["cache-control"] == "no-store"
    if kind == "application/prov+json":
        assert answer.json() == _provenance(served, job["result_id"], format="prov")
    else:
        assert answer.json()["provenance"]["job_id"] == job["job_id"]
    described = served.http.get("/openapi.json").json()["paths"]["/analyze/results/{result_id}/provenance"]
    assert kind in described["get"]["responses"]["200"]["content"]


def test_the_document_describes_what_it_has(served: Live) -> None:
    """Every field that is described is there, and every field of a source and an attempt is described."""
    schema = served.http.get("/openapi.json").json()["components"]["schemas"]["ProvenanceResponse"]
    described = schema["properties"]["provenance"]["properties"]
    facts = _provenance(served, served.wait(served.submit("other", region="described")["job_id"])["result_id"])
    assert set(described) <= set(facts)
    assert set(described["code"]["properties"]) == set(facts["code"])
    assert set(described["attempts"]["items"]["properties"]) == set(facts["attempts"][0])
    assert set(described["sources"]["items"]["properties"]) == {"name", "version", "hash", "url"}


def test_a_worker_says_again_which_code_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What retention removed while the worker was cut off from the store comes back, whether or not jobs come."""
    monkeypatch.setattr(worker, "_SAVE_CODES_SECONDS", 0.05)
    app = Langlauf()
    app.analysis(other)
    with live(tmp_path, app) as server:
        first = server.wait(server.submit("other", region="BE")["job_id"])
        known = _provenance(server, first["result_id"])["code"]
        assert server.app.runtime is not None
        workers: Any = server.app.runtime.store.workers
        key = CodeVersion(**known).key

        async def forget() -> int:
            return cast("int", await workers._write(Change(lambda tx: tx.run("prune_code", code=key, before=2**62))))

        assert server.run(forget()) == 1
        deadline = time.monotonic() + 60
        while _provenance(server, first["result_id"])["code"] != known:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_it_is_the_orgs_own(served: Live) -> None:
    """404 for a stranger and for what does not exist, 400 for another format."""
    job = served.wait(served.submit("other", region="BE")["job_id"])
    path = f"/analyze/results/{job['result_id']}/provenance"
    assert_problem(served.http.get(path, headers={"X-Org-Id": "stranger"}), 404, "not_found")
    assert_problem(served.http.get("/analyze/results/none/provenance"), 404, "not_found")
    assert_problem(served.http.get(f"{path}?format=xml"), 400, "bad_request")


@pytest.mark.parametrize(("language", "title"), [("en", "How this came about"), ("de", "Wie dies zustande kam")])
def test_the_page_says_how_it_came_about(served: Live, language: str, title: str) -> None:
    """Version, hashes, where it ran, and a line to cite it by."""
    job = served.wait(served.submit("survey", region="AG")["job_id"])
    page = served.http.get(f"/results/{job['result_id']}?lang={language}").text
    facts = _provenance(served, job["result_id"])
    for text in (title, "2026.3", facts["code"]["code_hash"], facts["input_hash"], facts["citation"]):
        assert text in page
