"""Garbage collection stops all threads of a server: little is left for it, and it takes little at a time."""

import gc
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

from langlauf.problems import Problem
from langlauf.server.connection import HttpConnection
from langlauf.server.request_cycle import RequestCycle
from tests.support.live import Live, live
from tests.support.processes import eventually

_PROGRAM = """
import gc
from langlauf.cli.interpreter import freeze_garbage

freeze_garbage()
largest, kept = [], []

def note(phase, info):
    if phase == "start":
        largest.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

gc.callbacks.append(note)
for number in range(200_000):
    kept.append([number])  # of each request something lives longer
    if len(kept) > 3_000:
        kept.clear()
gc.callbacks.remove(note)
print(len(largest), max(largest))
"""


def test_a_collection_looks_at_few_objects() -> None:
    """It stops every thread for as long as it looks: at what is new, never at what the program loaded."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    count, largest = map(int, done.stdout.split())
    assert count > 10
    assert largest < 6_000


def _left_by(server: Live, requests: list[str]) -> Counter[str]:
    """What requests on connections of their own leave to garbage collection, once these are closed."""
    for head in requests:
        with socket.create_connection(("127.0.0.1", int(server.http.base_url.port or 0)), timeout=60) as client:
            client.sendall(f"{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            while client.recv(65_536):
                pass
    server.http.close()
    eventually(lambda: not server.server.connection_limit.connections)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = (HttpConnection, RequestCycle, Problem)
        return Counter(type(one).__name__ for one in gc.garbage if isinstance(one, kinds))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_requests_and_connections_leave_no_garbage(tmp_path: Path) -> None:
    """They are freed when they end: answers, refusals and streams alike."""
    with live(tmp_path) as server:
        job = f"/analyze/jobs/{server.wait(server.submit('echo', query='x')['job_id'])['job_id']}"
        gc.collect()
        gc.disable()
        try:
            paths = ["/health", job, "/analyze/jobs/unknown", f"{job}/events?after=0", "/no/such/page"]
            assert _left_by(server, [f"GET {path}" for path in paths * 3]) == Counter()
        finally:
            gc.enable()
