"""Limits and estimates with a running worker: no wait for a poll, and resumed chunks do not count as computed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from langlauf import Job, Langlauf, PermanentError
from langlauf.auth.caller import DEFAULT_ORG, internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.errors import QueueIsFull
from langlauf.domain.job import Accepted
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.settings import load_settings

Body = Callable[[Langlauf, Runtime], Awaitable[None]]


def run(app: Langlauf, folder: Path, body: Body, **environment: str) -> None:
    """Runs the application without HTTP while the test's body works with it."""
    app.use(load_settings({"ASYNC_JOBS_STORE_FILE": str(folder / "store.db"), **environment}))

    async def main() -> None:
        async with app.lifespan():
            assert app.runtime is not None
            await body(app, app.runtime)

    asyncio.run(main())


async def ended(runtime: Runtime, job_id: str) -> JobView:
    """The job at its end."""
    view = await runtime.services.followers.until(
        internal_caller("default-org"), job_id, 60, lambda view: view.job.terminal
    )
    assert view is not None
    return view


def test_a_slot_refused_to_one_org_goes_to_another(tmp_path: Path) -> None:
    """With the polls of an idle worker an hour apart, every slot that a limit leaves is used all the same."""
    app = Langlauf()
    inside: Counter[str] = Counter()
    met, leave = asyncio.Event(), asyncio.Event()

    @app.analysis(duplicates=True)
    async def meet(job: Job) -> None:
        inside[job.org_id] += 1
        if sum(inside.values()) == 4:
            met.set()
        await leave.wait()

    async def body(app: Langlauf, runtime: Runtime) -> None:
        jobs = [await app.submit("meet", org=org) for org in ("org-a",) * 9 + ("org-b",) * 9 + ("org-c", "org-d")]
        async with asyncio.timeout(60):
            await met.wait()
        assert inside == {"org-a": 1, "org-b": 1, "org-c": 1, "org-d": 1}
        leave.set()
        for job in jobs:
            view = await runtime.services.followers.until(
                internal_caller(job.org_id), job.job_id, 60, lambda view: view.job.terminal
            )
            assert view is not None
            assert view.job.status is Status.COMPLETED

    run(
        app,
        tmp_path,
        body,
        LANGLAUF_MAX_RUNNING="6",
        LANGLAUF_MAX_RUNNING_PER_ORG="1",
        LANGLAUF_POLL_SECONDS="1h",
        LANGLAUF_LEASE_SECONDS="60",
    )


def test_stored_chunks_are_not_taken_for_pace(tmp_path: Path) -> None:
    """A resumed job that is at 60 % at once is measured from there."""
    app = Langlauf()
    at_work, go_on = asyncio.Event(), asyncio.Event()
    fail = [True]

    async def part(number: int) -> int:
        if number == 3 and fail[0]:
            raise PermanentError("stopped half-way")
        if number == 3:
            at_work.set()
            await go_on.wait()
        return number

    @app.analysis
    async def chunked(job: Job) -> int:
        async for number in job.chunks(range(5)):
            await job.checkpoint(f"part-{number}", part, number)
        return 5

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await ended(runtime, (await app.submit("chunked")).job_id)
        assert (first.job.progress_percent, first.job.paced_percent) == (60, 0)
        fail[0] = False
        caller = internal_caller(DEFAULT_ORG)
        made = await runtime.services.control.retry(caller, first.job.job_id, resume=True, idempotency_key=None)
        assert isinstance(made, Accepted)
        await at_work.wait()
        view = await runtime.services.reads.of(internal_caller("default-org")).job(made.job.job_id)
        assert view is not None
        assert (view.job.progress_percent, view.job.paced_percent) == (60, 60)
        moment = await runtime.services.reads.derived_fields(view)
        assert moment.estimated_seconds is None
        go_on.set()
        await ended(runtime, made.job.job_id)

    run(app, tmp_path, body)


def test_a_full_queue_is_a_clear_error_without_http(tmp_path: Path) -> None:
    """It says whose queue is full and when to come back, and nothing was accepted."""
    app = Langlauf()
    began, leave = asyncio.Event(), asyncio.Event()

    @app.analysis(duplicates=True)
    async def wait(job: Job) -> None:
        began.set()
        await leave.wait()

    async def body(app: Langlauf, runtime: Runtime) -> None:
        await app.submit("wait")
        await began.wait()
        await app.submit("wait")
        with pytest.raises(QueueIsFull, match="1 job of this org is waiting already; try again in 10 s") as caught:
            await app.submit("wait", idempotency_key="k")
        assert (caught.value.scope, caught.value.retry_after) == ("org", 10)
        leave.set()

    run(app, tmp_path, body, LANGLAUF_MAX_RUNNING="1", LANGLAUF_MAX_WAITING_PER_ORG="1")
