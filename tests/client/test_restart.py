"""A server that stops while a client follows a job, and restarts on the same port."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from langlauf.client import Client, JobState, RemoteJob
from langlauf.domain.state import Status
from tests.support.server import serving


def follow(job: RemoteJob, seen: Queue[JobState]) -> Status:
    """Tells each state, and returns the last one."""
    for state in job.states(timeout=60):
        seen.put(state)
    return state.status


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_followers_come_through_a_restart(how: signal.Signals, tmp_path: Path) -> None:
    """Killed or stopped, a server that is back ends the wait with the result, and no event is missed or repeated."""
    store, go = tmp_path / "store.db", tmp_path / "go"
    seen: Queue[JobState] = Queue()
    with ThreadPoolExecutor() as threads:
        with serving(store, settings={"LANGLAUF_LEASE_SECONDS": "2"}) as first:
            client = Client(first.url)
            job = client.submit("gate", path=str(go))
            states = threads.submit(follow, job, seen)
            waiting = threads.submit(job.wait, 60)
            events = threads.submit(lambda: [event.event_seq for event in job.events(timeout=60)])
            while seen.get(timeout=60).step != "at the gate":
                pass
            first.stop(how)
        go.touch()
        with serving(store, port=first.port):
            assert waiting.result(60).status is Status.COMPLETED
            assert states.result(60) is Status.COMPLETED
            assert events.result(60) == list(range(1, job.status().event_seq + 1))
            assert job.result() == {"passed": str(go)}
            client.close()
