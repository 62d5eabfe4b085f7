"""What retention removed: gone for its org with a reason, never there for anybody else."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.http.test_errors import assert_problem
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.server import ROOT, command, environment
from tests.support.store_kinds import store_under_test


def _clean_up(store: Path | str) -> dict[str, dict[str, int]]:
    words = command("cleanup", "--store", str(store), "--results-ttl-seconds", "0", "--events-ttl-seconds", "0")
    done = subprocess.run([*words, "--json"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    report: dict[str, dict[str, int]] = json.loads(done.stdout)
    return report


def _finished(server: Live) -> dict[str, str]:
    job = server.wait(server.submit("failing", "org-a", how="permanent")["job_id"], "org-a")
    assert job["result_id"]
    return job


@pytest.mark.both_stores
def test_a_removed_result_is_gone_with_a_reason(store_kind: str, tmp_path: Path) -> None:
    """Cleaned up beside the running server: 410 for the owner, 404 for strangers; the job's record stays."""
    with store_under_test(store_kind, tmp_path) as bed, live(tmp_path, LANGLAUF_STORE=bed.place) as server:
        job = _finished(server)
        path = f"/analyze/results/{job['result_id']}"
        etag = server.http.get(f"/analyze/jobs/{job['job_id']}", headers={"X-Org-Id": "org-a"}).headers["etag"]
        report = _clean_up(bed.place)
        assert (report["results"]["delete_count"], report["events"]["delete_count"] > 0) == (1, True)
        for view in ("latest", "requested"):
            gone = server.http.get(path, params={"view": view}, headers={"X-Org-Id": "org-a"})
            assert_problem(gone, 410, "expired")
        assert_problem(server.http.get(path, headers={"X-Org-Id": "org-b"}), 404, "not_found")
        after = server.job(job["job_id"], "org-a")
        assert (after["result"], after["events"]) == (None, [])
        assert after["result_expired_at"] is not None
        changed = server.http.get(
            f"/analyze/jobs/{job['job_id']}", headers={"X-Org-Id": "org-a", "If-None-Match": etag}
        )
        assert changed.status_code == 200
        events = server.http.get(f"/analyze/jobs/{job['job_id']}/events", headers={"X-Org-Id": "org-a"}).json()
        assert (events["events"], events["expired"]) == ([], True)
        assert server.http.get("/analyze/history", headers={"X-Org-Id": "org-a"}).json()["history"] == []


@pytest.mark.both_stores
def test_a_replay_of_a_removed_result_says_that_it_is_gone(store_kind: str, tmp_path: Path) -> None:
    """410, and not a result of null."""
    with store_under_test(store_kind, tmp_path) as bed, live(tmp_path, LANGLAUF_STORE=bed.place) as server:
        headers = {"Idempotency-Key": "k"}
        assert server.http.post("/analyze", json={"query": "x"}, headers=headers).status_code == 200
        _clean_up(bed.place)
        assert_problem(server.http.post("/analyze", json={"query": "x"}, headers=headers), 410, "expired")


@pytest.mark.both_stores
def test_the_server_cleans_up_by_itself(store_kind: str, tmp_path: Path) -> None:
    """At its start and then at intervals, with the settings of the environment."""
    soon = {
        "ASYNC_JOB_RESULTS_RETENTION_SECONDS": "0",
        "ASYNC_JOB_EVENTS_RETENTION_SECONDS": "0",
        "LANGLAUF_LIMITS": "retention_every=0.05",
    }
    with store_under_test(store_kind, tmp_path) as bed:
        with live(tmp_path, LANGLAUF_STORE=bed.place) as server:
            job = _finished(server)
        with live(tmp_path, LANGLAUF_STORE=bed.place, **soon) as server:
            path = f"/analyze/results/{job['result_id']}"
            eventually(lambda: server.http.get(path, headers={"X-Org-Id": "org-a"}).status_code != 200)
            assert_problem(server.http.get(path, headers={"X-Org-Id": "org-a"}), 410, "expired")


def test_without_the_switch_the_words_of_fault_injection_are_ordinary(tmp_path: Path) -> None:
    """__internal__ is a query like any other."""
    with live(tmp_path) as server:
        for query in ("__internal__", "__timeout__", "__address_intel__"):
            assert server.http.post("/analyze", json={"query": query}).json()["result"]["query"] == query


def test_a_store_in_memory_serves_and_keeps_nothing(tmp_path: Path) -> None:
    """memory:// writes no file, and the next start knows nothing."""
    with live(tmp_path, LANGLAUF_STORE="memory://") as server:
        job = server.wait(server.submit("chunked", parts=3)["job_id"])
        assert job["status"] == "completed"
    assert list(tmp_path.iterdir()) == []
    with live(tmp_path, LANGLAUF_STORE="memory://") as server:
        assert server.http.get("/analyze/jobs").json()["jobs"] == []
