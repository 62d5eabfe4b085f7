"""What a poll costs: a guard, so that the next feature cannot quietly take back what made it cheap.

It compares CPU time per request with that of a bare Starlette application, which sends the same bytes and looks at
nothing, both as processes of their own. A busy machine makes both slower alike; the best of some rounds counts.
"""

import socket
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.support.foreign import uvicorn
from tests.support.server import serving

#: Bare Starlette's time per request as a part of ours: measured, and below that by a margin a reason to look.
MEASURED = 0.67
_LEAST = MEASURED * 0.75
_ROUNDS, _REQUESTS, _CONNECTIONS = 5, 3_000, 32
_BARE = """
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

shown = msgspec.json.decode(Path("shown.json").read_bytes())


async def status(request: Request) -> Response:
    return Response(msgspec.json.encode(shown), media_type="application/json")


app = Starlette(routes=[Route("/analyze/jobs/{job_id}", status)])
"""


def _cpu_seconds(process: psutil.Process) -> float:
    family = [process, *process.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family)


def _cost(url: str, path: str, pid: int) -> float:
    """CPU seconds that the server takes for a request, where some connections ask one after the other."""
    process, (host, port) = psutil.Process(pid), url.removeprefix("http://").split(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    connections = [socket.create_connection((host, int(port))) for _ in range(_CONNECTIONS)]
    try:
        _ask_all(connections, request)
        before = _cpu_seconds(process)
        for _ in range(_REQUESTS // _CONNECTIONS):
            _ask_all(connections, request)
        return (_cpu_seconds(process) - before) / (_REQUESTS // _CONNECTIONS * _CONNECTIONS)
    finally:
        for one in connections:
            one.close()


def _ask_all(connections: list[socket.socket], request: bytes) -> None:
    for one in connections:
        one.sendall(request)
    for one in connections:
        answer = one.recv(65_536)
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            answer += one.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_poll_costs_little_more_than_a_bare_framework(tmp_path: Path) -> None:
    """The status of a job that has ended, asked for by 32 connections."""
    with serving(tmp_path / "s.db") as server:
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as http:
            made = http.post("/analyze", json={"analysis": "echo", "value": "x"})
            assert made.status_code == 200, made.text
            path = f"/analyze/jobs/{made.json()['job_id']}"
            (tmp_path / "shown.json").write_bytes(http.get(path).content)
        (tmp_path / "bare.py").write_text(_BARE, "utf-8")
        with uvicorn("bare:app", tmp_path, "--no-access-log", "--loop", "uvloop", "--http", "httptools") as bare:
            rounds = [
                (_cost(bare.url, path, bare.process.pid), _cost(server.url, path, server.process.pid))
                for _ in range(_ROUNDS)
            ]
    best_bare, best_ours = (min(costs) for costs in zip(*rounds, strict=True))
    ratio = best_bare / best_ours
    told = f"{ratio:.2f}: bare {best_bare * 1e6:.0f} µs, ours {best_ours * 1e6:.0f} µs per request"
    if ratio < _LEAST:
        pytest.fail(f"a poll costs more than it did ({MEASURED}): {told}")
    print(told)
