"""Idle: what a server costs that has nothing to do, alone and with many open event streams."""

import json
import resource
import socket
import time
import urllib.request
from contextlib import ExitStack
from urllib.parse import urlsplit

from bench.context import Context
from bench.processes import cpu_seconds, pss_bytes
from bench.results import Measured
from bench.sections.rounds import run_rounds
from bench.stack import ARQ, LANGLAUF_POSTGRES, LANGLAUF_SQLITE, PROCRASTINATE, Running, Stack, started

ENVIRONMENTS = ("arq", "procrastinate", "bare")
_SETTLE_SECONDS, _IDLE_SECONDS = 5.0, 20.0
_STREAMS = 2_000
_MIB = 1024 * 1024
_BARE_STREAMS = Stack(name="bare Starlette, StreamingResponse", environment="bare", app="bare_streams:api", on_disk="")
#: All streams are one caller's: its share of the places must be large enough. The job that they watch never ends.
_ROOM = {
    "LANGLAUF_LIMITS": "max_streams=100000; max_streams_org=100000; credential_share=100",
    "LANGLAUF_MAX_CONNECTIONS": "100000",
    "LANGLAUF_SHUTDOWN_GRACE": "1",
}


def measure_idle(context: Context, found: Measured) -> None:
    """Processor time, memory and time to start, of the server with its worker and all children."""

    def measure(stack: Stack) -> dict[str, float]:
        ready = "/ready" if stack.kind == "langlauf" else "/docs"
        with started(stack, context, context.data / "idle.log", ready=ready) as running:
            time.sleep(_SETTLE_SECONDS)
            used, since = cpu_seconds(running.pids), time.monotonic()
            time.sleep(_IDLE_SECONDS)
            share = (cpu_seconds(running.pids) - used) / (time.monotonic() - since)
            return {
                "ready_seconds": running.ready_seconds,
                "processor_percent": 100 * share,
                "memory_mib": pss_bytes(running.pids) / _MIB,
            }

    run_rounds(context, found, (LANGLAUF_SQLITE, LANGLAUF_POSTGRES, ARQ, PROCRASTINATE), measure)


def measure_streams(context: Context, found: Measured) -> None:
    """Memory of the server for each of many streams that wait for something to happen."""
    streams = context.of_jobs(_STREAMS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # servers inherit it

    def measure(stack: Stack) -> dict[str, float]:
        with started(stack, context, context.data / "streams.log", environment=_ROOM) as running, ExitStack() as open_:
            path = _stream_of_a_job(running) if stack.kind == "langlauf" else "/stream"
            _open_stream(open_, running.url, path)  # loads what the first one needs
            time.sleep(1)
            before = pss_bytes(running.pids)
            for _ in range(streams):
                _open_stream(open_, running.url, path)
            time.sleep(2)
            after = pss_bytes(running.pids)
            used, since = cpu_seconds(running.pids), time.monotonic()
            time.sleep(_SETTLE_SECONDS)
            share = (cpu_seconds(running.pids) - used) / (time.monotonic() - since)
            return {"kib_per_stream": (after - before) / 1024 / streams, "processor_percent": 100 * share}

    run_rounds(context, found, (LANGLAUF_SQLITE, LANGLAUF_POSTGRES, _BARE_STREAMS), measure)


def _open_stream(cleanup: ExitStack, url: str, path: str) -> None:
    """Open a stream and read its first bytes."""
    parts = urlsplit(url)
    connection = cleanup.enter_context(socket.create_connection((parts.hostname, parts.port), 30))
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/event-stream\r\n\r\n"
    connection.sendall(head.encode())
    said = connection.recv(4096)
    if not said.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"no stream: {said[:300]!r}")


def _stream_of_a_job(running: Running) -> str:
    """Return the path of the events of a job that waits for ever."""
    body = {
        "analysis": "waiting",
        "input": {},
        "options": {"async_mode": {"requested": True}},
    }
    request = urllib.request.Request(  # noqa: S310 - a server that was started here
        f"{running.url}/analyze", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - the same
        return f"/analyze/jobs/{json.load(response)['job']['job_id']}/events"
