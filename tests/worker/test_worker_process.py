"""`langlauf serve` and its worker process: neither takes the other along, save that the worker ends with the server."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.processes import alive, eventually, worker_processes
from tests.support.server import ServerProcess, environment, serving

_APP = "tests.worker.dying_app:app"
#: of Linux: a test that was started with a low priority itself comes to it
_LOWEST_PRIORITY = 19
#: Leases are long: what is lost is started again at once all the same.
_LEASE = {"LANGLAUF_LEASE_SECONDS": "600", "LANGLAUF_SWEEP_SECONDS": "600"}


def _client(server: ServerProcess) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=60, trust_env=False, headers={"Prefer": "respond-async"})


def _submit(http: httpx2.Client, analysis: str, **values: Any) -> str:
    answer = http.post("/analyze", json={"analysis": analysis, "input": values})
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job"]["job_id"]
    return job_id


def _job(http: httpx2.Client, job_id: str, wait: int = 0) -> dict[str, Any]:
    job: dict[str, Any] = http.get(f"/analyze/jobs/{job_id}", params={"wait": wait}).json()["job"]
    return job


def _ended(http: httpx2.Client, job_id: str) -> dict[str, Any]:
    return eventually(lambda: (job := _job(http, job_id, wait=5))["finished_at"] and job)


def test_a_killed_worker_is_replaced_and_its_jobs_go_on_at_once(tmp_path: Path) -> None:
    """The server responds all the while, is not ready meanwhile, and the job does not wait for its lease to expire."""
    with serving(tmp_path / "store.db", app=_APP, settings=_LEASE) as server, _client(server) as http:
        jobs = [_submit(http, "wait_for", file=str(tmp_path / "open")) for _ in range(3)]
        eventually(lambda: all(_job(http, job)["attempt"] == 1 for job in jobs))
        [worker] = worker_processes(server.process.pid)
        os.kill(worker, signal.SIGKILL)
        assert eventually(lambda: http.get("/ready").status_code == 503)
        eventually(lambda: all(_job(http, job)["attempt"] == 2 for job in jobs))
        assert http.get("/ready").status_code == 200
        (tmp_path / "open").touch()
        ended = [_ended(http, job) for job in jobs]
        assert worker_processes(server.process.pid) not in ([], [worker])
    assert {(job["status"], job["attempt"], job["retry_count"]) for job in ended} == {("completed", 2, 0)}
    assert "worker_died reason=SIGKILL" in "".join(server.log)


@pytest.mark.parametrize("how", ["exit", "fault"])
def test_a_coroutine_that_ends_its_worker_is_given_up_after_three_times(tmp_path: Path, how: str) -> None:
    """Its neighbour, which was not on the loop then, goes on and loses nothing but time."""
    with serving(tmp_path / "store.db", app=_APP, settings=_LEASE) as server, _client(server) as http:
        beside = _submit(http, "wait_for", file=str(tmp_path / "open"))
        eventually(lambda: _job(http, beside)["attempt"] == 1)
        job = _ended(http, _submit(http, "die", how=how))
        (tmp_path / "open").touch()
        neighbour = _ended(http, beside)
    assert (job["status"], job["error_code"], job["attempt"]) == ("failed", "worker_lost", 3)
    assert ("exit code 7" if how == "exit" else "SIGSEGV in worker/dying_app.py:") in job["error_message"]
    assert neighbour["status"] == "completed"


def test_requests_go_before_workers_and_workers_before_analyses(tmp_path: Path) -> None:
    """On a machine with few processors, what analyses compute does not keep answers waiting."""
    with serving(tmp_path / "store.db", app=_APP) as server, _client(server) as http:
        own = os.getpriority(os.PRIO_PROCESS, server.process.pid)
        found = {}
        for analysis in ("priority_of_worker", "priority_of_process"):
            job = _ended(http, _submit(http, analysis))
            found[analysis] = http.get(f"/analyze/results/{job['result_id']}").json()["result"]
    assert own == os.getpriority(os.PRIO_PROCESS, 0)
    expected = [min(own + step, _LOWEST_PRIORITY) for step in (5, 10)]
    assert found == {"priority_of_worker": [expected[0]] * 2, "priority_of_process": [expected[1]] * 2}


def test_the_worker_ends_with_its_server(tmp_path: Path) -> None:
    """Also one whose interpreter lock is held, and with it the processes of plain functions."""
    with serving(tmp_path / "store.db", app=_APP, settings=_LEASE) as server, _client(server) as http:
        plain = tmp_path / "plain"
        _submit(http, "plain_sleep", file=str(plain))
        eventually(plain.exists)
        _submit(http, "hold_lock", file=str(tmp_path / "held"))
        eventually((tmp_path / "held").exists)
        [worker] = worker_processes(server.process.pid)
        process = int(plain.read_text("utf-8"))
        server.process.kill()
        server.process.wait()
        eventually(lambda: not alive(worker) and not alive(process))


def test_metrics_of_the_worker_are_served(tmp_path: Path) -> None:
    """A worker that is replaced takes nothing of it away."""
    with serving(tmp_path / "store.db", app=_APP, settings=_LEASE) as server, _client(server) as http:

        def started() -> float:
            lines = http.get("/metrics").text.splitlines()
            [value] = [
                line.split()[1] for line in lines if line.startswith('langlauf_attempts_started_total{analysis="done"}')
            ]
            return float(value)

        _ended(http, _submit(http, "done"))
        assert started() == 1
        [worker] = worker_processes(server.process.pid)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: worker_processes(server.process.pid) not in ([], [worker]))
        _ended(http, _submit(http, "done"))
        assert started() == 2


def test_a_store_in_memory_has_its_worker_in_the_server(tmp_path: Path) -> None:
    """The store in memory is visible in one process only."""
    with serving("memory://", app=_APP) as server, _client(server) as http:
        assert worker_processes(server.process.pid) == []
        assert _ended(http, _submit(http, "done"))["status"] == "completed"


def test_a_worker_that_cannot_start_stops_the_program(tmp_path: Path) -> None:
    """The reason is told in one line, as any other that keeps it from starting."""
    with (
        pytest.raises(AssertionError, match="no longer refers to this function"),
        serving(tmp_path / "s.db", app=f"{_APP[:-3]}lost"),
    ):
        pass


def test_processes_of_jobs_load_neither_commands_nor_stores_nor_http() -> None:
    """They start in half the time of the server that starts them."""
    programs = "langlauf.cli.worker_process, langlauf.worker.processes.child"
    others = {"click", "starlette", "apsw", "jinja2", "langlauf.bootstrap", "langlauf.api", "langlauf.store"}
    code = f"import sys, langlauf.app, {programs}; print(sorted({others} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
