"""Values and errors of analyses that have no end: they cost their own job, and nothing of its neighbours'."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf
from langlauf.bootstrap import Runtime
from langlauf.domain.state import Status
from tests.support.running_app import cancel, done, ended, run

#: More jobs than a small pool of threads would have.
_MANY = 5


def _itself() -> dict[str, Any]:
    value: dict[str, Any] = {"rows": []}
    value["rows"].append(value)
    return value


def test_a_value_that_contains_itself_ends_its_job_at_once(tmp_path: Path) -> None:
    """As a result and as a partial; the partials of others are stored as before."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def circle(job: Job, partial: bool) -> object:
        if partial:
            await job.partial(_itself())
        return _itself()

    @app.analysis
    async def honest(job: Job) -> int:
        await job.partial(["x" * 10_000] * 10)
        return 1

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for number in range(_MANY):
            job = (await done(app, runtime, "circle", partial=bool(number % 2))).job
            assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "result_unstorable", 1)
            assert (job.error_message or "").startswith("/rows/0: it contains itself")
        assert (await done(app, runtime, "honest")).job.partial_count == 1

    run(app, tmp_path, body)


class Slow(Mapping[str, int]):
    """An object that is not read before it is let go."""

    let_go = threading.Event()
    asked = threading.Semaphore(0)

    def __getitem__(self, name: str) -> int:
        return 0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        self.asked.release()
        self.let_go.wait()
        return iter(())


def test_a_value_that_is_slow_to_encode_does_not_block_others(tmp_path: Path) -> None:
    """Each is read in a thread of its own job, which can be stopped meanwhile."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def slow(job: Job) -> object:
        return Slow()

    @app.analysis
    async def honest(job: Job) -> int:
        await job.partial(["x" * 10_000] * 10)
        return 1

    async def body(app: Langlauf, runtime: Runtime) -> None:
        jobs = [await app.submit("slow") for _ in range(_MANY)]
        for _ in jobs:
            await asyncio.to_thread(Slow.asked.acquire)
        assert (await done(app, runtime, "honest")).job.partial_count == 1
        for job in jobs:
            await cancel(runtime, job.job_id)
            assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        Slow.let_go.set()

    run(app, tmp_path, body)


class Rude(Exception):
    """Ends the program when it is shown."""

    def __str__(self) -> str:
        raise SystemExit


def test_errors_that_misbehave_end_their_own_job_alone(tmp_path: Path) -> None:
    """One that cannot be shown has its name; a group names all of its members."""
    app = Langlauf()

    @app.analysis
    async def rude(job: Job) -> None:
        raise Rude

    @app.analysis
    async def several(job: Job) -> None:
        raise ExceptionGroup("both", [ValueError("no rows"), KeyError("year")])

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "rude")).job
        assert (job.status, job.error_code, job.error_message) == (Status.FAILED, "internal", "Rude")
        job = (await done(app, runtime, "several")).job
        assert job.error_message == "2 errors: ValueError: no rows; KeyError: 'year'"

    run(app, tmp_path, body)


def test_a_coroutine_that_takes_no_refusal_leaves_the_event_loop_to_others(tmp_path: Path) -> None:
    """It swallows its cancellation and tells on and on: its job is ended, and others go on."""
    app = Langlauf()
    started, enough = asyncio.Event(), asyncio.Event()

    @app.analysis
    async def stubborn(job: Job) -> None:
        while not enough.is_set():
            with contextlib.suppress(BaseException):
                await job.progress(1)
                started.set()

    @app.analysis
    async def honest(job: Job) -> int:
        return 1

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("stubborn")
        await started.wait()
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        assert (await done(app, runtime, "honest")).job.status is Status.COMPLETED
        enough.set()

    run(app, tmp_path, body)
