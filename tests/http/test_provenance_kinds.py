"""The provenance of retried, resumed, reused and scheduled jobs names all of it, also when their logs are gone."""

import inspect
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf, PermanentError, TransientError
from langlauf.domain.result import RetentionPolicy
from tests.http import independent_hashes
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores
#: Fails in the first job that has the name, and in no later one.
FAILED: set[str] = set()
_YEAR = 365 * 86_400.0


async def survey(job: Job, region: str, years: int = 3) -> dict[str, Any]:
    """Reads year after year; the name of the region decides what goes wrong."""
    await job.source("Register", version="2026-03")
    total = 0
    for year in range(years):
        if year == 2 and region.startswith("broken") and region not in FAILED:
            FAILED.add(region)
            raise PermanentError("stopped half-way")
        total += await job.checkpoint(f"year-{year}", int, year)
    if region.startswith("flaky") and job.attempt < 3:
        raise TransientError("the source is down")
    return {"region": region, "ü": total}


async def plain(job: Job, region: str) -> str:
    """Has no version of its own."""
    return region


@pytest.fixture(scope="module")
def served(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with a versioned analysis whose results are reused, and one without a version."""
    FAILED.clear()
    folder = tmp_path_factory.mktemp("kinds")
    app = Langlauf()
    app.analysis(version="2026.3", reuse="7d", max_retries=3)(survey)
    app.analysis(plain)
    with store_under_test(store_kind, folder) as bed, live(folder, app, LANGLAUF_STORE=bed.place) as server:
        yield server


def _facts(server: Live, job: dict[str, Any], **query: str) -> dict[str, Any]:
    answer = server.http.get(f"/analyze/results/{job['result_id']}/provenance", params=query)
    assert answer.status_code == 200, answer.text
    facts: dict[str, Any] = answer.json()["provenance"]
    return facts


def _retire(server: Live, **ages: float) -> None:
    kept = {"final_results": _YEAR, "partial_results": _YEAR, "events": _YEAR, "jobs": _YEAR}
    assert server.app.runtime is not None
    server.run(server.app.runtime.store.retire(RetentionPolicy(**{**kept, **ages}), dry_run=False))


def _without_log(server: Live, job: dict[str, Any]) -> dict[str, Any]:
    """The provenance once retention has removed the log of the job; it is what it was before."""
    before = _facts(server, job)
    _retire(server, events=0.0)
    assert server.http.get(f"/analyze/jobs/{job['job_id']}/events").json()["events"] == []
    after = _facts(server, job)
    assert after == before
    return after


def _assert_hashes(server: Live, job: dict[str, Any], function: Any = survey) -> None:
    result = server.http.get(f"/analyze/results/{job['result_id']}").json()["result"]
    assert independent_hashes.differences(_facts(server, job), result, inspect.getsource(function)) == []


def _here(attempts: list[dict[str, Any]]) -> list[tuple[int, str, str | None]]:
    """Number, outcome and reason; all of them ran on this host, one after the other."""
    assert {(one["host"], one["version"]) for one in attempts} == {(socket.gethostname(), "2026.3")}
    times = [at for one in attempts for at in (one["started_at"], one["ended_at"])]
    assert times == sorted(times)
    return [(one["attempt"], one["outcome"], one["why"]) for one in attempts]


def test_a_retried_job_names_every_attempt(served: Live) -> None:
    """With host, version, times, outcome and reason."""
    job = served.wait(served.submit("survey", region="flaky-1")["job_id"])
    facts = _without_log(served, job)
    assert [outcome for _, outcome, _ in _here(facts["attempts"])] == ["retried", "retried", "completed"]
    assert [number for number, _, _ in _here(facts["attempts"])] == [1, 2, 3]
    assert facts["attempts"][0]["why"]
    assert facts["attempts"][0]["started_at"] == facts["started_at"]
    assert facts["attempts"][-1]["ended_at"] == facts["finished_at"]
    _assert_hashes(served, job)


def test_a_resumed_job_names_the_chunks_it_was_given_and_from_whom(served: Live) -> None:
    """Its attempts are its own, its sources those of the chunks."""
    first = served.wait(served.submit("survey", region="broken-1")["job_id"])
    assert first["status"] == "failed"
    again = served.http.post(f"/analyze/jobs/{first['job_id']}/retry").json()["job"]
    job = served.wait(again["job_id"])
    facts = _without_log(served, job)
    assert facts["resumed_from"] == {"job_id": first["job_id"], "chunks": 2}
    assert facts["retry_of"] == first["job_id"]
    assert _here(facts["attempts"]) == [(1, "completed", None)]
    assert [one["name"] for one in facts["sources"]] == ["Register"]
    page = served.http.get(f"/results/{job['result_id']}?lang=en").text
    assert "2 finished parts" in page
    _assert_hashes(served, job)


def test_a_repeated_job_that_was_given_nothing_does_not_say_that_it_resumed(served: Live) -> None:
    """It repeats the other one."""
    first = served.wait(served.submit("survey", region="broken-2")["job_id"])
    path = f"/analyze/jobs/{first['job_id']}/retry"
    again = served.http.post(path, json={"resume": False}).json()["job"]
    facts = _facts(served, served.wait(again["job_id"]))
    assert (facts["retry_of"], facts["resumed_from"]) == (first["job_id"], None)


def test_a_reused_result_names_the_run_it_is_taken_from(served: Live) -> None:
    """Its attempts and sources, also when nothing of that run is left."""
    first = served.wait(served.submit("survey", region="flaky-2")["job_id"])
    ran = _facts(served, first)
    reused = served.submit("survey", region="flaky-2")
    facts = _without_log(served, reused)
    assert facts["reused_from"] == first["job_id"]
    assert (facts["attempts"], facts["sources"], facts["code"]) == (ran["attempts"], ran["sources"], ran["code"])
    _assert_hashes(served, reused)
    assert served.http.post(f"/analyze/results/{reused['result_id']}/hold", json={}).status_code == 200
    _retire(served, final_results=0.0, partial_results=0.0, events=0.0, jobs=0.0)
    assert served.http.get(f"/analyze/jobs/{first['job_id']}").status_code == 404
    assert _facts(served, reused) == facts
    served.http.delete(f"/analyze/results/{reused['result_id']}/hold")


def test_a_scheduled_job_names_its_schedule_and_its_time(served: Live) -> None:
    """Both are in the PROV document, too."""
    made = {"name": "often", "analysis": "survey", "input": {"region": "often"}, "every_seconds": 1}
    assert served.http.post("/analyze/schedules", json=made).status_code == 201
    runs = eventually(lambda: served.http.get("/analyze/schedules/often").json()["runs"])
    served.http.delete("/analyze/schedules/often")
    job = served.wait(runs[-1]["job_id"])
    facts = _without_log(served, job)
    assert (facts["schedule"], facts["planned_at"]) == ("often", job["planned_at"])
    assert facts["planned_at"] <= facts["queued_at"]
    activity = _facts(served, job, format="prov")["activity"][f"ll:job/{job['job_id']}"]
    assert (activity["ll:schedule"], activity["ll:planned_at"]) == ("often", job["planned_at"])
    _assert_hashes(served, job)


def test_the_script_tells_right_from_wrong(served: Live, tmp_path: Path) -> None:
    """As a program, from three files; any other byte is found."""
    job = served.wait(served.submit("plain", region="Bern")["job_id"])
    texts = {"facts": json.dumps(_facts(served, job)), "result": '"Bern"', "source": inspect.getsource(plain)}

    def run(**others: str) -> tuple[int, str]:
        paths = [tmp_path / name for name in texts]
        for path in paths:
            path.write_text({**texts, **others}[path.name], "utf-8")
        script = [sys.executable, "-I", independent_hashes.__file__, *map(str, paths)]
        done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.strip()

    assert run() == (0, "every hash is right")
    assert run(result='"bern"') == (1, "result_sha256")
    assert run(source=texts["source"] + " ") == (1, "code_hash")
    assert run(facts=texts["facts"].replace('"region": "Bern"', '"region": "Biel"')) == (1, "input_hash")
