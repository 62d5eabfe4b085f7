"""A real server on a real port, in a thread of the test's own process, so that a test can signal its analyses."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import uvloop

from langlauf import Job, Langlauf, PermanentError, TransientError
from langlauf.server.program import HttpServer, make_server
from langlauf.settings import load_settings

#: Seconds to wait for what will come: far more than it takes on a busy machine, and less than a test's own limit.
PATIENCE = 60.0


class Gates:
    """Named gates: an analysis waits at one until the test opens it."""

    def __init__(self) -> None:
        #: guards the rest: tests and servers use the gates from different threads
        self._changed = threading.Condition()
        self._reached: set[str] = set()
        self._open: set[str] = set()
        self._waiting: set[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = set()

    async def wait(self, name: str) -> None:
        """Mark the gate as reached, and wait until it is open. Called by an analysis."""
        opened = asyncio.Event()
        waiter = (name, asyncio.get_running_loop(), opened)
        with self._changed:
            self._reached.add(name)
            self._changed.notify_all()
            if name in self._open:
                return
            self._waiting.add(waiter)
        try:
            await opened.wait()
        finally:
            with self._changed:
                self._waiting.discard(waiter)

    def wait_until_reached(self, name: str) -> None:
        """Block until an analysis waits at the gate. Called by a test."""
        with self._changed:
            reached = self._changed.wait_for(lambda: name in self._reached, PATIENCE)
        assert reached, f"no analysis came to the gate {name}"

    def open(self, name: str) -> None:
        """Open the gate. Called by a test."""
        with self._changed:
            self._open.add(name)
            for waiting_at, loop, opened in self._waiting:
                if waiting_at == name:
                    loop.call_soon_threadsafe(opened.set)


GATES = Gates()
_GERMAN = {"Look up a place": "Einen Ort suchen"}


def sample_app(**options: Any) -> Langlauf:  # noqa: C901 - a list of small functions, not a way through them
    """Return an application with small analyses whose input decides what they do."""
    app = Langlauf(**options)

    @app.analysis(duplicates=True)
    async def echo(job: Job, query: str, intelligence_mode: str = "basic") -> dict[str, Any]:
        """Return its input."""
        return {"query": query, "intelligence_mode": intelligence_mode, "org": job.org_id}

    @app.analysis(duplicates=True, title="Look up a place", label="{place} ({code})", texts={"de": _GERMAN})
    async def named(job: Job, place: str, code: str | None = None) -> dict[str, Any]:
        """Return its input."""
        return {"place": place}

    @app.analysis
    async def gated(job: Job, gate: str, partials: int = 0) -> dict[str, Any]:
        """Store partials, then wait at a gate."""
        for number in range(1, partials + 1):
            await job.partial({"n": number}, summary={"n": number}, progress=number * 10, step=f"part {number}")
        await GATES.wait(gate)
        return {"gate": gate}

    @app.analysis
    async def stepwise(job: Job, gates: list[str]) -> dict[str, Any]:
        """Store a partial behind each gate."""
        for number, gate in enumerate(gates, 1):
            await GATES.wait(gate)
            if number < len(gates):
                await job.partial({"n": number}, progress=100 * number / len(gates), step=f"part {number}")
        return {"n": len(gates)}

    @app.analysis(duplicates=True)
    async def failing(job: Job, how: str) -> Any:
        """Fail in the given way."""
        await job.partial({"before": how})
        if how == "transient":
            raise TransientError("upstream said no, token=abcdef123456")
        if how == "permanent":
            raise PermanentError("no such place", code="address_intel")
        if how == "unstorable":
            return {"text": "x\x00"}
        if how == "large":
            return "x" * 3_000_000
        raise RuntimeError(f"broken {how}")

    @app.analysis
    async def picky(job: Job, part: str, gate: str) -> dict[str, Any]:
        """Takes one part only, and says which parameter is at fault."""
        await job.partial({"part": part})
        if part != "south":
            raise PermanentError("part must be south", meta={"field": "part"})
        await GATES.wait(gate)
        return {"part": part}

    @app.analysis
    async def deaf(job: Job, gate: str) -> dict[str, Any]:
        """Ignore cancellation."""
        while True:
            try:
                await GATES.wait(gate)
            except asyncio.CancelledError:
                continue
            return {}

    @app.analysis(cancelable=False)
    async def stubborn(job: Job, gate: str) -> dict[str, Any]:
        """Cannot be canceled."""
        await GATES.wait(gate)
        return {}

    @app.analysis(duplicates=True)
    async def chunked(job: Job, parts: int, fail_at: int = -1) -> dict[str, Any]:
        """Counts how often each part was computed."""
        done = {}
        async for part in job.chunks(range(parts), step="Part {}"):
            if part == fail_at and job.attempt == 1:
                raise ValueError("stopped half-way")
            done[str(part)] = await job.checkpoint(f"part-{part}", _count, f"{job.org_id}-{part}")
        return done

    return app


COMPUTED: defaultdict[str, int] = defaultdict(int)


def _count(key: str) -> int:
    COMPUTED[key] += 1
    return COMPUTED[key]


T = TypeVar("T")


class Live:
    """A running server, and a client for it."""

    #: the event loop of the server's thread
    loop: asyncio.AbstractEventLoop

    def __init__(self, url: str, app: Langlauf, server: HttpServer) -> None:
        self.url = url
        self.app = app
        self.server = server
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE, trust_env=False)

    def submit(self, analysis: str, /, org: str = "default-org", **values: Any) -> dict[str, Any]:
        """Submit a job that must be accepted."""
        headers = {"X-Org-Id": org, "Prefer": "respond-async"}
        response = self.http.post("/analyze", json={"analysis": analysis, "input": values}, headers=headers)
        assert response.status_code == 202, response.text
        job: dict[str, Any] = response.json()["job"]
        return job

    def job(self, job_id: str, org: str = "default-org", **query: Any) -> dict[str, Any]:
        """Return the current state of a job."""
        response = self.http.get(f"/analyze/jobs/{job_id}", params=query, headers={"X-Org-Id": org})
        assert response.status_code == 200, response.text
        job: dict[str, Any] = response.json()["job"]
        return job

    def wait(self, job_id: str, org: str = "default-org", *, until: str | None = None) -> dict[str, Any]:
        """Return a job once it has ended or reached a state; by long polls, without sleeping."""
        for number in range(200):
            job = self.job(job_id, org, wait=5 if number else 0)
            if job["finished_at"] or job["status"] == until:
                return job
        raise AssertionError(f"{job_id} did not get there: {job}")

    def stop(self) -> None:
        """Ask the server to stop."""
        self.loop.call_soon_threadsafe(self.server.stop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's event loop, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


@contextmanager
def live(folder: Path, app: Langlauf | None = None, any_host: bool = False, /, **environment: str) -> Iterator[Live]:
    """Serve an application until the block ends, with settings from the given environment only."""
    app = app or sample_app()
    known = {"ASYNC_JOBS_STORE_FILE": str(folder / "store.db"), "LANGLAUF_PORT": "0", "LANGLAUF_RETRY_BASE": "0.01"}
    known["LANGLAUF_WATCHDOG"] = "0"  # it would end the tests' own process
    if "LANGLAUF_STORE" in environment:
        del known["ASYNC_JOBS_STORE_FILE"]
    settings = load_settings({**known, **environment})
    app.use(settings)
    urls: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    ready = threading.Event()

    def started(url: str) -> None:
        urls.append(url)
        ready.set()

    def stopping() -> None:
        if app.runtime is not None:
            app.runtime.hints.close()

    server = make_server(app.asgi(), settings, started=started, stopping=stopping, any_host=any_host)

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with app.lifespan():
            await server.serve()

    def serve() -> None:
        uvloop.run(main())
        ready.set()

    thread = threading.Thread(target=serve, name="live-server")
    thread.start()
    assert ready.wait(PATIENCE), "the server did not start in time"
    assert urls, "the server did not start"
    running = Live(urls[0], app, server)
    running.loop = loops[0]
    try:
        yield running
    finally:
        running.http.close()
        running.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not stop"
