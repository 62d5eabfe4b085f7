"""Code that blocks the event loop of its worker is stopped from outside, before anybody else has its job."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.processes import worker_processes
from tests.support.server import serving

_APP = "tests.worker.blocking_app:app"
_ASYNC = {"Prefer": "respond-async"}
_QUICK = {"LANGLAUF_SWEEP_SECONDS": "0.2", "LANGLAUF_POLL_SECONDS": "0.1"}
#: Long enough that a supervisor that a very busy machine lets wait acts before it is over.
_LEASE = "8"


def _submit(url: str, ledger: Path, how: str) -> str:
    body = {"analysis": "block", "file": str(ledger), "how": how, "lasting": 600}
    response = httpx2.post(f"{url}/analyze", json=body, headers=_ASYNC, trust_env=False, timeout=60)
    assert response.status_code == 202, response.text
    Path(f"{ledger}.accepted").touch()
    job_id: str = response.json()["job"]["job_id"]
    return job_id


def _post(http: httpx2.Client, body: dict[str, Any]) -> str:
    response = http.post("/analyze", json=body, headers=_ASYNC)
    assert response.status_code == 202, response.text
    job_id: str = response.json()["job"]["job_id"]
    return job_id


def _entries(ledger: Path) -> list[tuple[float, int, str]]:
    lines = [line.split(" ", 2) for line in ledger.read_text(encoding="utf-8").splitlines()]
    return [(float(moment), int(pid), word) for moment, pid, word in lines]


@pytest.mark.parametrize("how", ["sleep", "lock"])
def test_code_that_blocks_the_loop_is_stopped_and_the_server_lives(tmp_path: Path, how: str) -> None:
    """It is interrupted, or its worker is ended where the interpreter lock is held; there are never two owners."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    with (
        serving(store, app=_APP, settings={**_QUICK, "LANGLAUF_LEASE_SECONDS": _LEASE}) as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        job_id = _submit(server.url, ledger, how)
        job = _until(http, f"/analyze/jobs/{job_id}", lambda job: job["finished_at"] is not None)
        [crash] = [event["payload_json"]["crash"] for event in job["events"] if event["event_type"] == "job.lease_lost"]
        assert http.get("/health").status_code == 200
    assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)
    assert re.fullmatch(r"its event loop blocked for \d+\.\d s in worker/blocking_app\.py:\d+", crash)
    entries = _entries(ledger)
    [second_start] = [moment for moment, _, word in entries if word == "start 2"]
    assert all(moment < second_start for moment, _, word in entries if word in ("start 1", "alive"))
    assert ("blocked past its lease" in "".join(server.log)) == (how == "lock")


@pytest.mark.parametrize("how", ["sleep", "lock"])
def test_a_job_that_blocks_again_and_again_is_given_up(tmp_path: Path, how: str) -> None:
    """After three times; its error says where. A neighbour on the same loop keeps its attempt where it can."""
    with (
        serving(tmp_path / "store.db", app=_APP, settings={**_QUICK, "LANGLAUF_LEASE_SECONDS": _LEASE}) as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        neighbour = _post(http, {"analysis": "wait_for", "file": str(tmp_path / "open")})
        _until(http, f"/analyze/jobs/{neighbour}", lambda job: job["attempt"] == 1)
        blocking = _post(http, {"analysis": "block_always", "how": how})
        job = _until(http, f"/analyze/jobs/{blocking}", lambda job: job["finished_at"] is not None)
        (tmp_path / "open").touch()
        beside = _until(http, f"/analyze/jobs/{neighbour}", lambda job: job["finished_at"] is not None)
    assert (job["status"], job["error_code"]) == ("failed", "worker_lost")
    # On a busy machine it may also lose a lease that it did not block.
    losses = [event["payload_json"] for event in job["events"] if event["event_type"] == "job.lease_lost"]
    assert sum("crash" in loss for loss in losses) == 2, "and the third death ended it"
    assert re.search(r"event loop blocked for \d+\.\d s in worker/blocking_app\.py:\d+", job["error_message"])
    assert beside["status"] == "completed"
    assert how == "lock" or beside["attempt"] <= 2, "at most one loss"


def test_a_paused_worker_is_refused_but_not_ended(tmp_path: Path) -> None:
    """Suspended for longer than its lease, it has its writes refused when it resumes, and goes on working."""
    with (
        serving(tmp_path / "store.db", settings={**_QUICK, "LANGLAUF_LEASE_SECONDS": "2"}) as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        body = {"analysis": "gate", "path": str(tmp_path / "open")}
        url = f"/analyze/jobs/{http.post('/analyze', json=body, headers=_ASYNC).json()['job']['job_id']}"
        _until(http, url, lambda job: job["attempt"] == 1)
        [worker] = worker_processes(server.process.pid)
        os.kill(worker, signal.SIGSTOP)
        time.sleep(2.5)  # longer than the lease, and than anything the watchdog allows
        os.kill(worker, signal.SIGCONT)
        _until(http, url, lambda job: job["attempt"] == 2)
        (tmp_path / "open").touch()
        job = _until(http, url, lambda job: job["finished_at"] is not None)
        assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)
        assert worker_processes(server.process.pid) == [worker]
        log = "".join(server.log)
        assert "attempt_lost" in log
        assert "blocked past its lease" not in log


def _until(http: httpx2.Client, url: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    tag = ""
    while time.monotonic() < deadline:
        response = http.get(url, params={"wait": 5}, headers={"If-None-Match": tag} if tag else {})
        if response.status_code == 200:
            tag = response.headers["ETag"]
            job: dict[str, Any] = response.json()["job"]
            if reached(job):
                return job
    raise AssertionError(f"{url} did not get there: {job}")
