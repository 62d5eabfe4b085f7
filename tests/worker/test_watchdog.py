"""A worker whose event loop is blocked is ended from outside, before anybody else has its jobs."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.server import serving

_APP = "tests.support.blocking:app"
_ASYNC = {"Prefer": "respond-async"}


def _submit(url: str, ledger: Path, how: str) -> str:
    body = {"analysis": "block", "file": str(ledger), "how": how, "lasting": 600}
    response = httpx2.post(f"{url}/analyze", json=body, headers=_ASYNC, trust_env=False)
    assert response.status_code == 202, response.text
    Path(f"{ledger}.accepted").touch()
    job_id: str = response.json()["job"]["job_id"]
    return job_id


def _entries(ledger: Path) -> list[tuple[float, int, str]]:
    lines = [line.split(" ", 2) for line in ledger.read_text(encoding="utf-8").splitlines()]
    return [(float(moment), int(pid), word) for moment, pid, word in lines]


@pytest.mark.parametrize("how", ["sleep", "lock"])
def test_a_blocked_worker_is_ended_before_another_takes_over(tmp_path: Path, how: str) -> None:
    """Also where the interpreter lock is held all the time. There are never two owners, and the log says where."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    quick = {"LANGLAUF_SWEEP_SECONDS": "0.2", "LANGLAUF_POLL_SECONDS": "0.1"}
    with serving(store, app=_APP, settings={**quick, "LANGLAUF_LEASE_SECONDS": "2"}) as first:
        job_id = _submit(first.url, ledger, how)
        assert first.process.wait(60) == -signal.SIGABRT
        first.join()
        log = "".join(first.log)
        assert "blocked past its lease" in log
        assert "blocking.py" in log, "where every thread stood"
        with serving(store, app=_APP, settings=quick) as second, httpx2.Client(timeout=60, trust_env=False) as http:
            job = _until(http, f"{second.url}/analyze/jobs/{job_id}", lambda job: job["finished_at"] is not None)
    assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)
    entries = _entries(ledger)
    [second_start] = [moment for moment, _, word in entries if word == "start 2"]
    first_pid = entries[0][1]
    assert all(moment < second_start for moment, pid, _ in entries if pid == first_pid)


def test_a_paused_worker_is_refused_but_not_ended(tmp_path: Path) -> None:
    """Somebody stopped the process for longer than its lease: when it goes on it is told so, and works again."""
    quick = {"LANGLAUF_LEASE_SECONDS": "2", "LANGLAUF_SWEEP_SECONDS": "0.2", "LANGLAUF_POLL_SECONDS": "0.1"}
    with (
        serving(tmp_path / "store.db", settings=quick) as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        body = {"analysis": "gate", "path": str(tmp_path / "open")}
        url = f"/analyze/jobs/{http.post('/analyze', json=body, headers=_ASYNC).json()['job']['job_id']}"
        _until(http, url, lambda job: job["attempt"] == 1)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # longer than the lease, and than anything the watchdog allows
        server.process.send_signal(signal.SIGCONT)
        _until(http, url, lambda job: job["attempt"] == 2)
        (tmp_path / "open").touch()
        job = _until(http, url, lambda job: job["finished_at"] is not None)
        assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)
        assert server.process.poll() is None
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
