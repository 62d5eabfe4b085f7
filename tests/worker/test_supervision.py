"""Processes under a worker that is killed, paused or told to stop: nothing of them outlives its lease."""

import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.processes import alive, eventually, parent, signal_without_lock
from tests.support.server import ServerProcess, serving

_APP = "tests.support.plain_app:app"
_QUICK = {"LANGLAUF_SWEEP_SECONDS": "0.2", "LANGLAUF_POLL_SECONDS": "0.1"}


def _submit(server: ServerProcess, analysis: str, **values: Any) -> str:
    body = {"analysis": analysis, "input": values}
    answer = httpx2.post(
        f"{server.url}/analyze", json=body, headers={"Prefer": "respond-async"}, trust_env=False, timeout=60
    )
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job"]["job_id"]
    return job_id


def _job(server: ServerProcess, job_id: str, wait: int = 0) -> dict[str, Any]:
    url = f"{server.url}/analyze/jobs/{job_id}"
    job: dict[str, Any] = httpx2.get(url, params={"wait": wait}, timeout=60, trust_env=False).json()["job"]
    return job


def _words(ledger: Path) -> list[list[str]]:
    return [line.split() for line in ledger.read_text(encoding="utf-8").splitlines()] if ledger.exists() else []


@pytest.mark.parametrize("analysis", ["holds", "family"])
def test_processes_of_a_killed_worker_end_with_it(tmp_path: Path, analysis: str) -> None:
    """One that holds its interpreter lock cannot see that the worker is gone; a grandchild does not even know it."""
    ledger = tmp_path / "ledger"
    with serving(tmp_path / "store.db", app=_APP, settings=_QUICK) as server:
        values = {"lasting": 600} if analysis == "holds" else {}
        _submit(server, analysis, file=str(ledger), **values)
        eventually(lambda: bool(_words(ledger)))
        pid = int(_words(ledger)[0][1])
        server.process.kill()
        server.process.wait()
        eventually(lambda: not alive(pid))


def test_the_process_of_a_paused_worker_ends_before_another_takes_over(tmp_path: Path) -> None:
    """The supervisor ends it at the end of the lease, so that two never compute at once; the paused worker is told."""
    store, ledger = tmp_path / "store.db", tmp_path / "ledger"
    with serving(store, app=_APP, settings={**_QUICK, "LANGLAUF_LEASE_SECONDS": "2"}) as first:
        job_id = _submit(first, "ticks", file=str(ledger), lasting=600)
        eventually(lambda: bool(_words(ledger)))
        with serving(store, app=_APP, settings=_QUICK) as second:
            signal_without_lock(first.process, signal.SIGSTOP, store)
            eventually(lambda: any(words[2] == "2" for words in _words(ledger)))
            first.process.send_signal(signal.SIGCONT)
            eventually(lambda: "attempt_lost" in "".join(first.log))
            httpx2.post(f"{second.url}/analyze/jobs/{job_id}/cancel", timeout=60, trust_env=False)
            while not (job := _job(second, job_id, wait=10))["finished_at"]:
                pass
    assert (job["status"], job["attempt"], job["retry_count"]) == ("canceled", 2, 0)
    entries = [(float(moment), attempt) for moment, _, attempt in _words(ledger)]
    last_of_first = max(moment for moment, attempt in entries if attempt == "1")
    first_of_second = min(moment for moment, attempt in entries if attempt == "2")
    assert last_of_first < first_of_second


def test_a_signal_to_the_whole_family_is_the_workers_business(tmp_path: Path) -> None:
    """A service manager tells every process of a service to stop: the function may finish within the grace."""
    ledger = tmp_path / "ledger"
    store = tmp_path / "store.db"
    with serving(store, app=_APP, settings={**_QUICK, "LANGLAUF_SHUTDOWN_GRACE": "600"}) as server:
        job_id = _submit(server, "ticks", file=str(ledger), lasting=1.5)
        eventually(lambda: bool(_words(ledger)))
        child = int(_words(ledger)[0][1])
        for pid in (child, parent(child), server.process.pid):
            os.kill(pid, signal.SIGTERM)
        assert server.process.wait(60) == 0
    with serving(store, app=_APP, settings=_QUICK) as again:
        job = _job(again, job_id)
    assert (job["status"], job["attempt"]) == ("completed", 1)


def test_cpu_bound_jobs_use_more_than_one_core(tmp_path: Path) -> None:
    """Two functions compute in two processes at the same time, beside an API that answers."""
    with serving(tmp_path / "store.db", app=_APP, settings=_QUICK) as server:
        ledgers = [tmp_path / "a", tmp_path / "b"]
        jobs = [_submit(server, "holds", file=str(ledger), lasting=600) for ledger in ledgers]
        eventually(lambda: all(_words(ledger) for ledger in ledgers))
        assert len({_words(ledger)[0][1] for ledger in ledgers} | {str(server.process.pid)}) == 3
        assert [_job(server, job)["status"] for job in jobs] == ["running", "running"]
