"""`kill -9` at any moment after a 202 loses nothing: every accepted job comes to its one end, and `verify` agrees."""

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx2

from tests.support.server import ROOT, command, environment, serving

ROUNDS = 6
SECONDS_TO_END = 40
#: So short that a killed server's jobs are taken back within the test, so long that a busy machine keeps them.
SETTINGS = {"LANGLAUF_LEASE_SECONDS": "2", "LANGLAUF_SWEEP_SECONDS": "0.5", "LANGLAUF_MAX_RUNNING": "16"}


class Load:
    """Submits jobs until it is told to stop, and remembers every one that was answered with 202."""

    def __init__(self, url: str, seed: int) -> None:
        self._http = httpx2.Client(base_url=url, timeout=10, trust_env=False)
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self.accepted: list[str] = []
        self.first = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Ends the load."""
        self._stop.set()
        self._thread.join()
        self._http.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            body = {"analysis": "steps", "count": self._chance.randint(1, 40), "options": _ASYNC}
            try:
                response = self._http.post("/analyze", json=body)
            except httpx2.TransportError:
                continue
            if response.status_code == 202:
                self.accepted.append(response.json()["job"]["job_id"])
                self.first.set()


_ASYNC = {"async_mode": {"requested": True, "allow_duplicate": True}}


def _ends(url: str, job_ids: list[str]) -> dict[str, str]:
    """The state of every job once all have ended, or when the time is over."""
    deadline = time.monotonic() + SECONDS_TO_END
    ends: dict[str, str] = {}
    with httpx2.Client(base_url=url, timeout=40, trust_env=False) as http:
        for job_id in job_ids:
            while True:
                response = http.get(f"/analyze/jobs/{job_id}", params={"wait": 5})
                ends[job_id] = response.json()["job"]["status"] if response.status_code == 200 else "lost"
                if ends[job_id] not in ("queued", "running", "partial") or time.monotonic() > deadline:
                    break
    return ends


def _verify(store: Path) -> subprocess.CompletedProcess[str]:
    words = command("verify", "--store", str(store), "--json")
    return subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)


def test_a_killed_server_loses_no_accepted_job(tmp_path: Path) -> None:
    """Rounds of load, kill at a random moment, restart on the same file; at the end all are completed, none twice."""
    seed = int(os.environ.get("LANGLAUF_TEST_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    store = tmp_path / "store.db"
    accepted: list[str] = []
    for _ in range(ROUNDS):
        with serving(store, settings=SETTINGS) as server:
            load = Load(server.url, chance.randrange(10**6))
            assert load.first.wait(20)
            time.sleep(chance.uniform(0, 0.6))  # the moment of the kill is the point of the test
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            load.stop()
            accepted += load.accepted
    with serving(store, settings=SETTINGS) as server:
        ends = _ends(server.url, accepted)
    assert len(accepted) > ROUNDS
    assert set(ends.values()) == {"completed"}, {job: end for job, end in ends.items() if end != "completed"}
    checked = _verify(store)
    assert checked.returncode == 0, checked.stdout + checked.stderr
