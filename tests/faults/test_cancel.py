"""A cancel ends within the grace, also if its worker is paused or dead while its lease is live."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.domain.outcome import CANCEL_MARGIN
from tests.support.processes import signal_without_lock
from tests.support.server import ServerProcess, serving, working

GRACE = 0.5
#: Neither the lease nor the sweep interval ends within the test: only the hint makes it prompt.
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": "600",
    "LANGLAUF_SWEEP_SECONDS": "600",
    "LANGLAUF_CANCEL_GRACE": str(GRACE),
    "LANGLAUF_POLL_SECONDS": "0.05",
}


class Jobs:
    """A server without workers, as a caller sees it."""

    def __init__(self, server: ServerProcess, http: httpx2.Client) -> None:
        self.server = server
        self._http = http

    def submit(self, **body: Any) -> str:
        """Submit a job; return its URL."""
        body["options"] = {"async_mode": {"requested": True, "allow_duplicate": True}}
        answer = self._http.post("/analyze", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job"]["status_url"])

    def cancel(self, address: str) -> int:
        """Request a cancel; return the status code."""
        return self._http.post(f"{address}/cancel").status_code

    def until(self, address: str, *states: str) -> dict[str, Any]:
        """Return the job once it is in one of the states."""
        for _ in range(100):
            job: dict[str, Any] = self._http.get(address, params={"wait": 1}).json()["job"]
            if job["status"] in states:
                return job
        raise AssertionError(f"never {states}: {job}")

    def until_started(self, address: str) -> None:
        """Return when the job has reported its place."""
        while self._http.get(address).json()["job"]["step"] is None:
            time.sleep(0.02)


@contextmanager
def _jobs(store: Path) -> Iterator[Jobs]:
    with (
        serving(store, settings={**SETTINGS, "LANGLAUF_WORKERS": "0"}) as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        yield Jobs(server, http)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_cancel_does_not_wait_for_a_lost_worker(tmp_path: Path, how: signal.Signals) -> None:
    """The job is canceled after the grace and a margin, long before its lease expires."""
    store = tmp_path / "store.db"
    with _jobs(store) as jobs, working(store, settings=SETTINGS) as worker:
        address = jobs.submit(analysis="hang", label="here")
        jobs.until_started(address)
        signal_without_lock(worker, how, store)
        asked_at = time.monotonic()
        assert jobs.cancel(address) == 202
        job = jobs.until(address, "canceled")
        assert time.monotonic() - asked_at >= GRACE + CANCEL_MARGIN
        assert (job["canceled_by"], job["error_code"], job["attempt"]) == ("user", None, 1)
        assert [event["event_type"] for event in job["events"]][-2:] == ["job.cancel_requested", "job.canceled"]
        if how is signal.SIGKILL:
            worker.wait()


def test_a_resumed_worker_writes_nothing_and_works_on(tmp_path: Path) -> None:
    """Its job had ended meanwhile: its result is refused, the end stays, and it runs the next job."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    with _jobs(store) as jobs, working(store, settings={**SETTINGS, "LANGLAUF_MAX_RUNNING": "1"}) as worker:
        address = jobs.submit(analysis="gate", path=str(gate))
        jobs.until_started(address)
        signal_without_lock(worker, signal.SIGSTOP, store)
        assert jobs.cancel(address) == 202
        ended = jobs.until(address, "canceled")
        gate.touch()
        worker.send_signal(signal.SIGCONT)
        # The only slot of the worker is free once its result was refused.
        assert jobs.until(jobs.submit(analysis="echo", value=1), "completed")["attempt"] == 1
        assert jobs.until(address, "canceled") == ended
