"""The worker: leases, time limits, stopping, several jobs at once; on a real store, with analyses that signal."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf, PermanentError, TransientError
from langlauf.analysis.schema import InvalidInput
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.state import Status
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent
from tests.support.running_app import cancel, ended, kinds, run


def test_several_jobs_run_at_once_but_not_more_than_allowed(tmp_path: Path) -> None:
    """LANGLAUF_MAX_RUNNING holds: that many side by side, the rest waits."""
    app = Langlauf()
    inside, most = 0, 0
    full = asyncio.Event()

    @app.analysis(duplicates=True)
    async def meet(job: Job) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        inside -= 1
        return most

    async def body(app: Langlauf, runtime: Runtime) -> None:
        jobs = [await app.submit("meet") for _ in range(9)]
        for job in jobs:
            assert (await ended(runtime, job.job_id)).job.status is Status.COMPLETED
        assert most == 3

    run(app, tmp_path, body, LANGLAUF_MAX_RUNNING="3")


def test_a_long_attempt_keeps_its_lease(tmp_path: Path) -> None:
    """Heartbeats renew it: longer than a lease, one attempt."""
    app = Langlauf()

    @app.analysis
    async def long(job: Job) -> int:
        await asyncio.sleep(3)
        return job.attempt

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("long")
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.attempt, view.job.lost_count) == (Status.COMPLETED, 1, 0)

    run(app, tmp_path, body, LANGLAUF_LEASE_SECONDS="2.5")


def test_an_attempt_over_its_time_is_stopped_and_retried(tmp_path: Path) -> None:
    """job.timeout for each attempt, and timeout_max_retries at the end."""
    app = Langlauf()
    stopped: list[int] = []

    @app.analysis(timeout=0.2, max_retries=1)
    async def slow(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(job.attempt)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("slow")
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.error_code) == (Status.FAILED, "timeout_max_retries")
        assert stopped == [1, 2]
        assert await kinds(runtime, job.job_id) == [
            "job.queued",
            "job.running",
            "job.timeout",
            "job.retry_scheduled",
            "job.attempt_started",
            "job.timeout",
            "job.failed",
        ]

    run(app, tmp_path, body)


def test_a_cancel_reaches_the_coroutine(tmp_path: Path) -> None:
    """The running code is canceled at once, not at the next heartbeat, and its job ends as canceled."""
    app = Langlauf()
    began = asyncio.Event()
    left: list[str] = []

    @app.analysis
    async def endless(job: Job) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.append(job.job_id)
            raise

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("endless")
        await began.wait()
        await cancel(runtime, job.job_id)
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.canceled_by, left) == (Status.CANCELED, "user", [job.job_id])

    run(app, tmp_path, body, LANGLAUF_LEASE_SECONDS="600")


def test_a_coroutine_that_ignores_cancellation_is_abandoned(tmp_path: Path) -> None:
    """After the grace its job ends, its slot is free, its writes are refused, and it is told."""
    app = Langlauf()
    began, let_go = asyncio.Event(), asyncio.Event()
    refused = asyncio.Queue[str]()

    @app.analysis
    async def deaf(job: Job) -> None:
        began.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        try:
            await job.partial({"too": "late"})
        except Exception as error:
            refused.put_nowait(type(error).__name__)
            raise

    @app.analysis
    async def quick(job: Job) -> str:
        return "done"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        before = EVENT_COUNTS[LogEvent.ATTEMPT_ABANDONED]
        job = await app.submit("deaf")
        await began.wait()
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        assert EVENT_COUNTS[LogEvent.ATTEMPT_ABANDONED] == before + 1
        other = await app.submit("quick")
        assert (await ended(runtime, other.job_id)).job.status is Status.COMPLETED
        let_go.set()
        assert await refused.get() == "StaleAttempt"
        assert await runtime.services.reads.of(internal_caller("default-org")).results(job.job_id) == []

    run(app, tmp_path, body, LANGLAUF_MAX_RUNNING="1")


def test_a_checkpoint_is_computed_once_over_all_attempts(tmp_path: Path) -> None:
    """After a failed attempt the finished chunks come from the store, plain and async alike."""
    app = Langlauf()
    computed: list[str] = []

    def plain(name: str) -> dict[str, Any]:
        computed.append(name)
        return {"name": name, "pair": (1, 2)}

    async def slow(name: str) -> str:
        computed.append(name)
        return name

    @app.analysis
    async def survey(job: Job) -> Any:
        first = await job.checkpoint("a", plain, "a")
        second = await job.checkpoint("b", slow, "b")
        closure = await job.checkpoint("c", lambda: computed.append("c"))
        if job.attempt == 1:
            raise TransientError("network")
        return [first, second, closure]

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("survey")
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.attempt) == (Status.COMPLETED, 2)
        assert computed == ["a", "b", "c"]
        found = await runtime.services.reads.of(internal_caller("default-org")).result(
            view.job.result_id or "", latest=True
        )
        assert found is not None
        assert found.delivered.payload == '[{"name":"a","pair":[1,2]},"b",null]'

    run(app, tmp_path, body)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (float("nan"), "result_unstorable"),
        ({"a": float("inf")}, "result_unstorable"),
        ("\x00", "result_unstorable"),
        ("\ud800", "result_unstorable"),
        (2**64, "result_unstorable"),
        (object(), "result_unstorable"),
        ("x" * 2_000, "result_too_large"),
    ],
)
def test_a_result_that_cannot_be_stored_ends_its_job(tmp_path: Path, value: object, code: str) -> None:
    """failed with its code, at once, without a retry; the error text itself can be stored."""
    app = Langlauf()

    @app.analysis
    async def strange(job: Job) -> object:
        return value

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("strange")
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.error_code, view.job.attempt) == (Status.FAILED, code, 1)

    run(app, tmp_path, body, LANGLAUF_MAX_RESULT="1000")


def test_an_error_text_is_cleaned_and_its_trace_kept_for_operators(tmp_path: Path) -> None:
    """NUL and secrets do not reach the store; the trace is in error_meta."""
    app = Langlauf()

    @app.analysis
    async def rude(job: Job) -> None:
        raise RuntimeError("bad \x00 password=hunter2secret \ud800")

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("rude")
        view = await ended(runtime, job.job_id)
        assert view.job.error_code == "internal"
        assert "hunter2secret" not in (view.job.error_message or "") + (view.job.error_meta or "")
        assert "Traceback" in (view.job.error_meta or "")
        assert "Traceback" not in (view.job.error_message or "")

    run(app, tmp_path, body)


def test_an_analysis_that_tries_to_end_the_program_fails_alone(tmp_path: Path) -> None:
    """sys.exit, also in a child task, and errors that cannot tell what they are, end their own job at once."""
    app = Langlauf()

    async def leave_at_once() -> None:
        sys.exit(3)

    class Unfinished(PermanentError):
        def __init__(self) -> None:
            pass

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    @app.analysis(max_retries=0, duplicates=True)
    async def leave(job: Job, how: str) -> None:
        if how == "child":
            async with asyncio.TaskGroup() as group:
                group.create_task(leave_at_once())
        raise {
            "exit": SystemExit(3),
            "mute": Mute(),
            "unfinished": Unfinished(),
            "wrapped": PermanentError(
                ValueError("no"),  # type: ignore[arg-type]  # as people do
                code="Not Snake",
                hint="nonsense",  # type: ignore[arg-type]  # as above
            ),
            "details": PermanentError("x", meta={"bad": Mute}),
        }[how]

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for how, code in (
            ("exit", "internal"),
            ("child", "internal"),
            ("mute", "internal"),
            ("unfinished", "validation_error"),
            ("wrapped", "not_snake"),
            ("details", "validation_error"),
        ):
            job = await app.submit("leave", how=how)
            view = await ended(runtime, job.job_id)
            assert (view.job.status, view.job.error_code, view.job.attempt) == (Status.FAILED, code, 1), how
        assert runtime.alive()

    run(app, tmp_path, body)


def test_an_input_that_no_longer_fits_fails_at_once(tmp_path: Path) -> None:
    """An analysis that was changed since says so, and does not lose its worker ten times."""
    made: list[str] = []

    def application(kind: type) -> Langlauf:
        app = Langlauf()

        async def hello(job: Job, name: Any) -> str:
            return f"hello {name}"

        hello.__annotations__["name"] = kind
        app.analysis(hello)
        return app

    async def submit(app: Langlauf, _: Runtime) -> None:
        made.append((await app.submit("hello", name="Ada")).job_id)

    async def finish(_: Langlauf, runtime: Runtime) -> None:
        view = await ended(runtime, made[0])
        assert (view.job.error_code, view.job.attempt) == ("validation_error", 1)
        assert "no longer fits" in (view.job.error_message or "")

    run(application(str), tmp_path, submit, LANGLAUF_WORKERS="0")
    run(application(int), tmp_path, finish)


def test_a_hanging_checkpoint_does_not_block_others(tmp_path: Path) -> None:
    """Not its neighbours' checkpoints, and not the end of the program."""
    app = Langlauf()
    never = threading.Event()

    @app.analysis(timeout=0.2, max_retries=0, duplicates=True)
    async def stuck(job: Job) -> None:
        await job.checkpoint("k", never.wait)

    @app.analysis
    async def quick(job: Job) -> Any:
        return await job.checkpoint("k", lambda: 1)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for job in [await app.submit("stuck") for _ in range(40)]:
            assert (await ended(runtime, job.job_id)).job.error_code == "timeout"
        view = await ended(runtime, (await app.submit("quick")).job_id)
        assert view.job.status is Status.COMPLETED

    run(app, tmp_path, body, LANGLAUF_MAX_RUNNING="40")  # would not return while a thread of its pool hangs
    never.set()


def test_what_is_submitted_from_python_passes_the_same_door(tmp_path: Path) -> None:
    """An org that cannot be one, and values that no store could keep, are refused."""
    app = Langlauf()

    @app.analysis
    async def echo(job: Job, value: Any) -> Any:
        return value

    async def body(app: Langlauf, _: Runtime) -> None:
        for org, value in (("a b", 1), ("", 1), ("org", "\x00"), ("org", 2**70), ("org", float("nan"))):
            with pytest.raises(InvalidInput):
                await app.submit("echo", org=org, value=value)

    run(app, tmp_path, body)


def test_chunks_report_progress_and_yield_every_item_in_every_attempt(tmp_path: Path) -> None:
    """Percent rises with the items; the step names the item."""
    app = Langlauf()
    seen: list[int] = []

    @app.analysis
    async def walk(job: Job) -> None:
        async for item in job.chunks(range(4), step="Reading {}"):
            seen.append(item)
            if job.attempt == 1 and item == 2:
                raise TransientError("network")

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("walk")
        await ended(runtime, job.job_id)
        assert seen == [0, 1, 2, 0, 1, 2, 3]
        events = await runtime.services.reads.of(internal_caller("default-org")).events(job.job_id, after=0, limit=100)
        steps = [event.payload_json for event in events if event.event_type == "job.progress"]
        assert steps[0] == '{"progress_percent":0,"step":"Reading 0"}'
        assert steps[-1] == '{"progress_percent":75,"step":"Reading 3"}'

    run(app, tmp_path, body)


def test_a_job_submitted_before_a_restart_runs_after_it(tmp_path: Path) -> None:
    """What was accepted without a worker waits in the file for one."""
    made: list[str] = []

    def application() -> Langlauf:
        app = Langlauf()

        @app.analysis
        async def hello(job: Job, name: str) -> str:
            return f"hello {name}"

        return app

    async def submit(app: Langlauf, _: Runtime) -> None:
        made.append((await app.submit("hello", name="Ada")).job_id)

    async def finish(_: Langlauf, runtime: Runtime) -> None:
        assert (await ended(runtime, made[0])).job.status is Status.COMPLETED

    run(application(), tmp_path, submit, LANGLAUF_WORKERS="0")
    run(application(), tmp_path, finish)


@pytest.mark.parametrize("how", ["own", "generator", "checkpoint"])
def test_whatever_a_coroutine_raises_ends_its_attempt(tmp_path: Path, how: str) -> None:
    """Also what is no `Exception`: the job fails at once, and its slot is free."""
    app = Langlauf()

    class Strange(BaseException):
        """Not an exception that others expect."""

    def raise_strange() -> None:
        raise Strange(how)

    @app.analysis
    async def strange(job: Job) -> None:
        if how == "checkpoint":
            await job.checkpoint("key", raise_strange)
        raise GeneratorExit if how == "generator" else Strange(how)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await ended(runtime, (await app.submit("strange")).job_id)).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "internal", 1)

    run(app, tmp_path, body, LANGLAUF_LEASE_SECONDS="60")


def test_a_group_of_errors_is_transient_if_all_of_it_is(tmp_path: Path) -> None:
    """A task group that lost its connections is tried again; one with a mistake in it is not."""
    app = Langlauf()

    async def fail(error: Exception) -> None:
        raise error

    @app.analysis(duplicates=True, max_retries=1)
    async def grouped(job: Job, mistake: bool) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(ConnectionError("cut off")))
            group.create_task(fail(KeyError("oops") if mistake else TimeoutError("late")))

    async def body(app: Langlauf, runtime: Runtime) -> None:
        passing = (await ended(runtime, (await app.submit("grouped", mistake=False)).job_id)).job
        mistaken = (await ended(runtime, (await app.submit("grouped", mistake=True)).job_id)).job
        assert (passing.error_code, passing.retry_count) == ("network_error", 1)
        assert (mistaken.error_code, mistaken.retry_count) == ("internal", 0)

    run(app, tmp_path, body)


@pytest.mark.parametrize("key", [None, 1, b"x", ("a",)])
def test_the_key_of_a_chunk_is_text(tmp_path: Path, key: Any) -> None:
    """Anything else is a mistake that is told in words, not in those of the database."""
    app = Langlauf()

    @app.analysis
    async def keyed(job: Job) -> None:
        await job.checkpoint(key, lambda: 1)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await ended(runtime, (await app.submit("keyed")).job_id)).job
        assert (job.status, job.error_code) == (Status.FAILED, "validation_error")
        assert "must be text" in (job.error_message or "")

    run(app, tmp_path, body)
