"""How a running application stops: side by side, once, and honest about what it could not give back."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from langlauf import Job, Langlauf
from langlauf.bootstrap import Runtime
from langlauf.settings import load_settings
from langlauf.store.sqlite import connection
from tests.support.stores import query

Body = Callable[[Langlauf, Runtime], Awaitable[None]]


def _application(started: asyncio.Event) -> Langlauf:
    app = Langlauf()

    @app.analysis
    async def endless(job: Job) -> None:
        started.set()
        await asyncio.Event().wait()

    return app


def _run(path: Path, body: Body, **environment: str) -> int:
    """Runs an application with an attempt under way, does what the body says, and stops it; returns what it kept."""
    known = {"ASYNC_JOBS_STORE_FILE": str(path), "LANGLAUF_CANCEL_GRACE": "0.1", "LANGLAUF_SHUTDOWN_GRACE": "60"}

    async def main() -> int:
        started = asyncio.Event()
        app = _application(started)
        app.use(load_settings({**known, **environment}))
        async with app.lifespan():
            assert app.runtime is not None
            runtime = app.runtime
            await app.submit("endless")
            await started.wait()
            await body(app, runtime)
        return runtime.held_attempts

    return asyncio.run(main())


def test_a_drain_starts_once_and_its_grace_can_be_ended(tmp_path: Path) -> None:
    """Asking again changes nothing; the grace of a minute ends with the end_grace, and nothing is kept."""

    async def body(_: Langlauf, runtime: Runtime) -> None:
        assert runtime.held_attempts == 1
        runtime.drain()
        runtime.drain()
        await asyncio.sleep(0.1)  # what runs goes on in its grace
        assert runtime.held_attempts == 1
        runtime.end_grace()

    assert _run(tmp_path / "store.db", body) == 0
    assert query(tmp_path / "store.db", "SELECT count(*) FROM leases") == [(0,)]


def test_attempts_that_cannot_be_released_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds the file through the whole stop: it ends all the same, and says what it kept."""
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 50)
    path = tmp_path / "store.db"
    other: list[apsw.Connection] = []

    async def body(_: Langlauf, runtime: Runtime) -> None:
        other.append(apsw.Connection(str(path)))
        other[0].set_busy_timeout(60_000)  # a write of the worker may be under way
        other[0].execute("BEGIN EXCLUSIVE")
        runtime.drain()
        runtime.end_grace()

    try:
        assert _run(path, body) == 1
    finally:
        other[0].close()
    assert query(path, "SELECT count(*) FROM leases") == [(1,)]
