"""An application that runs its jobs without HTTP, in the process of the test."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from langlauf import Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.read_models import CancelRequest, JobView
from langlauf.settings import load_settings
from tests.support.server import TEST_NAMES

Body = Callable[[Langlauf, Runtime], Awaitable[None]]
ORG = "default-org"


def run(app: Langlauf, folder: Path, body: Body, **environment: str) -> None:
    """Run the application and the coroutine of a test."""
    known = {
        "ASYNC_JOBS_STORE_FILE": str(folder / "store.db"),
        "LANGLAUF_LEASE_SECONDS": "60",  # a busy machine may pause this process for longer than a short one
        "LANGLAUF_WATCHDOG": "0",  # it would end the tests' own process
        "LANGLAUF_SWEEP_SECONDS": "0.1",
        "LANGLAUF_POLL_SECONDS": "0.1",
        "LANGLAUF_CANCEL_GRACE": "0.2",
        "LANGLAUF_RETRY_BASE": "0.01",
        "LANGLAUF_CHILD_ENV": TEST_NAMES,
        **environment,
    }
    app.use(load_settings(known))

    async def main() -> None:
        async with app.lifespan():
            assert app.runtime is not None
            await body(app, app.runtime)

    asyncio.run(main())


async def ended(runtime: Runtime, job_id: str, seconds: float = 60) -> JobView:
    """Wait for the end of a job, and return it."""
    view = await runtime.services.followers.until(internal_caller(ORG), job_id, seconds, lambda view: view.job.terminal)
    assert view is not None
    assert view.job.terminal, view.job
    return view


async def done(app: Langlauf, runtime: Runtime, analysis: str, /, seconds: float = 60, **values: Any) -> JobView:
    """Submit a job and wait for its end."""
    job = await app.submit(analysis, **values)
    return await ended(runtime, job.job_id, seconds)


async def result(runtime: Runtime, view: JobView) -> Any:
    """Return the result of a completed job."""
    assert view.job.status == "completed", view.job
    assert view.job.result_id is not None
    found = await runtime.services.reads.of(internal_caller(ORG)).result(view.job.result_id, latest=True)
    assert found is not None
    return _decode(found.delivered.payload)


def _decode(payload: str | None) -> Any:
    assert payload is not None
    return msgspec.json.decode(payload)


async def kinds(runtime: Runtime, job_id: str) -> list[str]:
    """Return the types of a job's events."""
    events = await runtime.services.reads.of(internal_caller(ORG)).events(job_id, after=0, limit=1_000)
    return [str(event.event_type) for event in events]


async def cancel(runtime: Runtime, job_id: str) -> None:
    """Request the cancel of a job."""
    request = CancelRequest(org_id=ORG, job_id=job_id, by="user", reason="enough", request_id="test")
    await runtime.store.cancel(request)


async def lines_of(file: Path, count: int, seconds: float = 60) -> list[str]:
    """Wait until a file, written by other processes, has so many lines, and return them."""
    async with asyncio.timeout(seconds):
        while len(lines := _lines(file)) < count:  # noqa: ASYNC110 - other processes write it, without a signal
            await asyncio.sleep(0.01)
    return lines


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
