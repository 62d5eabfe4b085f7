"""Streams where something goes wrong, and under a server that is not ours."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from langlauf.clock import new_id
from langlauf.domain.errors import StoreUnavailable
from langlauf.settings import load_settings
from langlauf.store.sqlite.reads import SqliteTenantReads
from tests.support.event_stream import port_of, stream_of
from tests.support.live import GATES, live, sample_app
from tests.support.sqlite_edits import lengthen_log


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a mistake")])
def test_an_error_ends_a_stream_between_two_events(
    tmp_path: Path, gate: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The client gets a clean end and goes on where it was, once the trouble is over."""
    log = SqliteTenantReads.log

    async def broken(reads: SqliteTenantReads, job_id: str, *, after: int, **bounds: Any) -> Any:
        found = await log(reads, job_id, after=after, **bounds)
        if after >= 2 and broken_now.is_set():  # also where the read began before
            raise error
        return found

    broken_now = threading.Event()
    monkeypatch.setattr(SqliteTenantReads, "log", broken)

    async def body(port: int, job_id: str) -> None:
        async with stream_of(port, job_id) as stream:
            while (await stream.next()).kind != "job.running":
                pass
            broken_now.set()
            GATES.open(gate)
            assert await stream.rest() == []
            assert stream.body.endswith(b"\n\n")
        broken_now.clear()
        async with stream_of(port, job_id, Last_Event_ID="2") as stream:
            assert [event.kind for event in await stream.rest()] == ["job.completed"]

    with live(tmp_path) as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        asyncio.run(body(port_of(server.url), job_id))


@contextmanager
def _mounted(folder: Path, *, grace: int = 5, **environment: str) -> Iterator[tuple[int, Any]]:
    """The application inside another one, on a server that knows nothing of it."""
    app = sample_app()
    known = {"ASYNC_JOBS_STORE_FILE": str(folder / "store.db"), "LANGLAUF_WATCHDOG": "0"}
    app.use(load_settings({**known, "LANGLAUF_SHUTDOWN_GRACE": "0", **environment}))
    outer = Starlette(routes=[Mount("/", app.asgi())], lifespan=app.lifespan)
    server = uvicorn.Server(uvicorn.Config(outer, port=0, log_config=None, timeout_graceful_shutdown=grace))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1], app
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


async def _open_streams(app: Any, count: int) -> None:
    while app.runtime.services.followers.slots.taken("stream") != count:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)


def test_a_stream_works_and_ends_under_another_server(
    tmp_path: Path, gate: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lifetime is what ends it there; a client that leaves is noticed, and one that does not read is let go."""

    async def body(port: int, app: Any, job_id: str) -> None:
        async with stream_of(port, job_id) as stream:
            kinds = [event.kind for event in await stream.rest()]
            assert kinds[:2] == ["job.queued", "job.running"]
            assert stream.ended
        async with stream_of(port, job_id) as stream:
            assert stream.status == 200
        async with asyncio.timeout(60):
            await _open_streams(app, 0)
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
        lengthen_log(tmp_path / "store.db", job_id, 150, 100_000)
        async with stream_of(port, job_id, buffer=4_096), asyncio.timeout(60):
            await _open_streams(app, 0)
        GATES.open(gate)

    with _mounted(tmp_path, LANGLAUF_LIMITS="stream_lifetime=2; stream_patience=0.5") as (port, app):
        answer = httpx2.post(
            f"http://127.0.0.1:{port}/analyze",
            json={"analysis": "gated", "input": {"gate": gate}},
            headers={"Prefer": "respond-async"},
            trust_env=False,
        )
        GATES.wait_until_reached(gate)
        asyncio.run(body(port, app, answer.json()["job"]["job_id"]))
    assert not any(record.exc_info for record in caplog.records)


def test_another_server_that_stops_leaves_a_stream_with_a_clean_end(tmp_path: Path, gate: str) -> None:
    """It cancels what goes on past its own grace; the client has the last chunk all the same."""

    async def body(stack: ExitStack) -> None:
        port, _ = stack.enter_context(_mounted(tmp_path, grace=1))
        wish = {"analysis": "gated", "input": {"gate": gate}, "options": {"async_mode": {"requested": True}}}
        answer = httpx2.post(f"http://127.0.0.1:{port}/analyze", json=wish, trust_env=False, timeout=60)
        GATES.wait_until_reached(gate)
        async with stream_of(port, answer.json()["job"]["job_id"]) as stream:
            while (await stream.next()).kind != "job.running":
                pass
            await asyncio.to_thread(stack.close)
            await stream.rest()
            assert stream.ended

    with ExitStack() as stack:
        asyncio.run(body(stack))
