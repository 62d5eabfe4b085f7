"""SIGTERM: nothing new starts, running jobs may finish, the others are released at once, and the exit code is 0."""

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.processes import eventually
from tests.support.server import ROOT, ServerProcess, command, environment, serving, working
from tests.support.stores import query

STUBBORN_APP = "tests.faults.stubborn_app:app"
_ASYNC = {"async_mode": {"requested": True, "allow_duplicate": True}}
#: Timeout for what must not wait for ten-minute settings; a busy machine may need most of it.
PROMPT = 60.0
LONG = "600"
LONG_GRACE = {"LANGLAUF_SHUTDOWN_GRACE": LONG, "LANGLAUF_LEASE_SECONDS": LONG}


def _submit(url: str, **body: Any) -> str:
    """Submit a job; return its id."""
    answer = httpx2.post(f"{url}/analyze", json={**body, "options": _ASYNC}, trust_env=False, timeout=60)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"]["job_id"])


def _until(url: str, job_id: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the job once the condition holds."""
    with httpx2.Client(base_url=url, timeout=60, trust_env=False) as http:
        for _ in range(600):
            job: dict[str, Any] = http.get(f"/analyze/jobs/{job_id}", params={"wait": 1}).json()["job"]
            if enough(job):
                return job
            time.sleep(0.02)
    raise AssertionError(f"it never came to that: {job}")


def _started(job: dict[str, Any]) -> bool:
    return job["step"] is not None


def _ended(job: dict[str, Any]) -> bool:
    return job["finished_at"] is not None


def _stopping(server: ServerProcess) -> None:
    """Ask the server to stop; return when it no longer listens."""
    server.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + PROMPT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.01)
    raise AssertionError("the server goes on listening")


def _kinds(store: Path, job_id: str) -> list[object]:
    rows = query(store, "SELECT event_type FROM job_events WHERE job_id = ? ORDER BY event_seq", job_id)
    return [kind for (kind,) in rows]


def _released(store: Path, job_id: str) -> None:
    """Whether the job was released: due now, with no retry, loss or error counted."""
    assert query(store, "SELECT count(*) FROM leases") == [(0,)]
    columns = "status, attempt, retry_count, lost_count, error_count, next_attempt_at = updated_at"
    assert query(store, f"SELECT {columns} FROM jobs WHERE job_id = ?", job_id) == [("running", 1, 0, 0, 0, 1)]
    assert _kinds(store, job_id)[-1] == "job.released"


def test_a_job_that_ends_within_the_grace_is_completed(tmp_path: Path) -> None:
    """The server no longer listens, its worker goes on, and it exits as soon as the job has ended."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    with serving(store, settings=LONG_GRACE) as server:
        job_id = _submit(server.url, analysis="gate", path=str(gate))
        _until(server.url, job_id, _started)
        _stopping(server)
        assert server.process.poll() is None
        gate.touch()
        assert server.process.wait(PROMPT) == 0
    assert query(store, "SELECT status, attempt FROM jobs") == [("completed", 1)]


def test_nothing_is_claimed_once_the_stop_has_begun(tmp_path: Path) -> None:
    """A slot that becomes free during the grace stays free."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    with serving(store, settings={**LONG_GRACE, "LANGLAUF_MAX_RUNNING": "2"}) as server:
        first = _submit(server.url, analysis="gate", path=str(gate))
        second = _submit(server.url, analysis="gate", path=str(tmp_path / "later"))
        _until(server.url, first, _started)
        _until(server.url, second, _started)
        waiting = _submit(server.url, analysis="echo", value=1)
        _stopping(server)
        gate.touch()
        while query(store, "SELECT status FROM jobs WHERE job_id = ?", first) != [("completed",)]:
            time.sleep(0.02)
        (tmp_path / "later").touch()
        assert server.process.wait(PROMPT) == 0
    assert query(store, "SELECT status, attempt FROM jobs WHERE job_id = ?", waiting) == [("queued", 0)]


def test_a_long_job_is_released_and_another_worker_goes_on_at_once(tmp_path: Path) -> None:
    """It costs no retry and no loss, and only the other worker's poll interval."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    settings = {"LANGLAUF_SHUTDOWN_GRACE": "0.3", "LANGLAUF_LEASE_SECONDS": LONG, "LANGLAUF_POLL_SECONDS": "0.1"}
    with serving(store, settings=settings) as server:
        job_id = _submit(server.url, analysis="gate", path=str(gate))
        _until(server.url, job_id, _started)
        with working(store, settings=settings):
            assert server.stop() == 0
            with serving(store, settings={"LANGLAUF_WORKERS": "0"}) as reader:
                _until(reader.url, job_id, lambda job: job["attempt"] == 2)
                gate.touch()
                job = _until(reader.url, job_id, _ended)
    assert (job["status"], job["attempt"], job["retry_count"], job["error_count"]) == ("completed", 2, 0, 0)
    kinds = [event["event_type"] for event in job["events"]]
    assert "job.lease_lost" not in kinds
    assert kinds[kinds.index("job.released") + 1] == "job.attempt_started"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_grace(tmp_path: Path, second: signal.Signals) -> None:
    """Running jobs are released now, not lost, and the exit code is still 0."""
    store = tmp_path / "store.db"
    with serving(store, settings=LONG_GRACE) as server:
        job_id = _submit(server.url, analysis="hang")
        _until(server.url, job_id, _started)
        _stopping(server)
        assert server.process.poll() is None
        server.process.send_signal(second)
        assert server.process.wait(PROMPT) == 0, "".join(server.log)
    _released(store, job_id)


def test_a_worker_alone_stops_in_the_same_way(tmp_path: Path) -> None:
    """The first signal starts its grace, the second ends it; the job is released."""
    store = tmp_path / "store.db"
    with serving(store, settings={"LANGLAUF_WORKERS": "0"}) as server, working(store, settings=LONG_GRACE) as worker:
        job_id = _submit(server.url, analysis="hang")
        _until(server.url, job_id, _started)
        worker.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.5)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PROMPT) == 0
    _released(store, job_id)


def test_a_third_signal_kills_also_where_the_loop_hangs(tmp_path: Path) -> None:
    """Nothing is released then: as after kill -9, the job continues when its lease expires."""
    store = tmp_path / "store.db"
    with serving(store, settings={"LANGLAUF_WORKERS": "0"}, app=STUBBORN_APP) as server:
        worker = subprocess.Popen(
            command("worker", STUBBORN_APP, "--store", str(store)), cwd=ROOT, env=environment(**LONG_GRACE)
        )
        try:
            _until(server.url, _submit(server.url, analysis="blocking"), _started)
            sent = 0
            while worker.poll() is None and sent < 300:
                worker.send_signal(signal.SIGTERM)
                sent += 1
                time.sleep(0.2)  # signals that arrive together count as one
            assert (worker.wait(PROMPT), sent >= 3) == (128 + signal.SIGTERM, True)
        finally:
            worker.kill()
            worker.wait()
    assert query(store, "SELECT count(*) FROM leases") == [(1,)]


@pytest.mark.parametrize("analysis", ["threaded", "deaf", "insistent"])
def test_jobs_that_ignore_the_stop_are_not_waited_for(tmp_path: Path, analysis: str) -> None:
    """A thread and coroutines that run for minutes: their jobs are released, and the program exits."""
    store = tmp_path / "store.db"
    with serving(store, app=STUBBORN_APP, settings={"LANGLAUF_LEASE_SECONDS": LONG}) as server:
        job_id = _submit(server.url, analysis=analysis)
        _until(server.url, job_id, _started)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PROMPT) == 0
    _released(store, job_id)


def _open_polls(server: ServerProcess) -> int:
    """Return how many long polls wait in the server."""
    text = httpx2.get(f"{server.url}/metrics", timeout=60, trust_env=False).text
    [value] = re.findall(r"^langlauf_polls_open (\d+)", text, re.MULTILINE)
    return int(value)


def test_open_long_polls_are_answered(tmp_path: Path) -> None:
    """They return the job as it is, and the connection is closed."""
    store = tmp_path / "store.db"
    settings = {"LANGLAUF_SHUTDOWN_GRACE": "1", "LANGLAUF_LEASE_SECONDS": LONG}  # a late heartbeat would be an event
    with serving(store, settings=settings) as server, ThreadPoolExecutor(20) as threads:
        job_id = _submit(server.url, analysis="hang")
        _until(server.url, job_id, _started)
        address = f"{server.url}/analyze/jobs/{job_id}?wait=30"
        etag = httpx2.get(f"{server.url}/analyze/jobs/{job_id}", trust_env=False, timeout=60).headers["etag"]
        asked = threading.Barrier(21)

        def poll(number: int) -> int:
            with httpx2.Client(timeout=60, trust_env=False) as http:
                http.get(f"{server.url}/health")
                asked.wait()
                return http.get(address, headers={"If-None-Match": etag}).status_code

        polls = [threads.submit(poll, number) for number in range(20)]
        asked.wait()
        eventually(lambda: _open_polls(server) == 20)  # a later one would be refused
        assert not any(poll.done() for poll in polls)
        server.process.send_signal(signal.SIGTERM)
        assert [poll.result(PROMPT) for poll in polls] == [304] * 20
        assert server.process.wait(PROMPT) == 0, "".join(server.log)
        assert "Traceback" not in "".join(server.log)


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    """200 of them, and some with incomplete requests, delay nothing."""
    with serving(tmp_path / "store.db", settings={"LANGLAUF_LIMITS": f"head_seconds={LONG}"}) as server:
        idle = [_asked_once(server) for _ in range(200)]
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(5)]
        for connection in slow:
            connection.sendall(b"GET /health HTTP/1.1\r\nHos")
        assert server.stop() == 0
        assert [connection.recv(1) for connection in idle] == [b""] * 200
        for connection in (*idle, *slow):
            connection.close()


def _asked_once(server: ServerProcess) -> socket.socket:
    """Open a kept connection that was answered."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65_536)
    return connection


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.15, 0.3])
def test_a_stop_in_the_middle_of_claims_leaves_no_lease_behind(tmp_path: Path, wait: float) -> None:
    """Jobs are submitted and claimed while the signal comes: each ends or is released, and none with a 202 is lost."""
    store = tmp_path / "store.db"
    accepted: list[str] = []
    begun, stop = threading.Event(), threading.Event()

    def pour() -> None:
        with httpx2.Client(timeout=60, trust_env=False) as http:
            while not stop.is_set():
                try:
                    body = {"analysis": "hang", "options": _ASYNC}
                    answer = http.post(f"{server.url}/analyze", json=body)
                except httpx2.TransportError:
                    return
                if answer.status_code == 202:
                    accepted.append(answer.json()["job"]["job_id"])
                    begun.set()

    settings = {"LANGLAUF_LEASE_SECONDS": LONG, "LANGLAUF_MAX_RUNNING": "100000"}
    with serving(store, settings=settings) as server, ThreadPoolExecutor(4) as threads:
        pouring = [threads.submit(pour) for _ in range(4)]
        assert begun.wait(60)
        time.sleep(wait)  # the moment of the signal is the point of the test
        code = server.stop()
        stop.set()
        for one in pouring:
            one.result(PROMPT)
    assert code == 0, "".join(server.log)
    assert query(store, "SELECT count(*) FROM leases") == [(0,)]
    assert query(store, "SELECT DISTINCT lost_count, retry_count, error_count FROM jobs") == [(0, 0, 0)]
    known = {job_id for (job_id,) in query(store, "SELECT job_id FROM jobs")}
    assert set(accepted) <= known
    started = query(store, "SELECT count(*) FROM jobs WHERE status = 'running'")
    assert query(store, "SELECT count(*) FROM job_events WHERE event_type = 'job.released'") == started
