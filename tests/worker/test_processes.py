"""Plain functions in processes: what they can do, how they fail, and that nothing of them outlives its time."""

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from langlauf import Langlauf, PlainJob
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.errors import RegistrationError
from langlauf.domain.read_models import JobFilter
from langlauf.domain.state import Status
from tests.support.plain_app import add, app, waits
from tests.support.processes import alive, parent
from tests.support.running_app import ORG, cancel, done, ended, kinds, lines_of, result, run


async def _gone(pid: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while alive(pid):  # noqa: ASYNC110 - the end of a process of another parent cannot be awaited
            await asyncio.sleep(0.01)


def test_a_plain_function_runs_in_a_warm_process(tmp_path: Path) -> None:
    """It gets its typed input and its handle, runs outside this process, and the process is used again."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "add", a=2, b=3))
        again = await result(runtime, await done(app, runtime, "add", a=1))
        assert (first["sum"], first["org"], first["attempt"], again["sum"]) == (5, ORG, 1, 2)
        assert first["pid"] == again["pid"] != os.getpid()

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_the_handle_has_the_same_calls(tmp_path: Path) -> None:
    """Chunks, checkpoints, partials, progress and the summary arrive as those of a coroutine do."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "tells", parts=2)
        assert await result(runtime, view) == {
            "done": [{"n": 0}, {"n": 1}],
            "canceled": False,
            "summary": {"parts": 2},
        }
        assert (view.job.partial_count, view.job.step) == (2, "nearly")
        seen = await kinds(runtime, view.job.job_id)
        assert [seen.count(kind) for kind in ("job.progress", "job.partial", "job.completed")] == [3, 2, 1]
        partial, _, final = await runtime.services.reads.of(internal_caller(ORG)).results(view.job.job_id)
        assert (partial.summary_json, final.summary_json) == ('{"parts":1}', '{"parts":2}')
        plain = await done(app, runtime, "add", a=1)
        [only] = await runtime.services.reads.of(internal_caller(ORG)).results(plain.job.job_id)
        assert only.summary_json is None

    run(app, tmp_path, body)


def test_what_it_prints_goes_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Line by line, with the job it belongs to, without secrets, and not without end."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "prints", lines=1_500)
        told = [vars(record)["fields"] for record in caplog.records if record.message == "analysis_output"]
        assert {fields["job_id"] for fields in told} == {view.job.job_id}
        texts = [fields.get("text") for fields in told if fields["stream"] == "stdout"]
        assert texts[:2] == ["line 0 password=[redacted]", "line 1 password=[redacted]"]
        assert (len(texts), texts[-1]) == (1_001, None)
        assert [fields["text"] for fields in told if fields["stream"] == "stderr"] == ["and an error"]

    with caplog.at_level(logging.INFO, "langlauf"):
        run(app, tmp_path, body)


@pytest.mark.parametrize(
    ("how", "code", "retries"),
    [
        ("value", "validation_error", 0),
        ("transient", "network_error", 1),
        ("permanent", "address_intel", 0),
        ("flaky", "internal", 1),
        ("exit", "internal", 0),
    ],
)
def test_errors_are_classified_as_those_of_coroutines(tmp_path: Path, how: str, code: str, retries: int) -> None:
    """The exception is classified where it is known; types that the analysis declared count as transient."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "fails", how=how)).job
        assert (job.status, job.error_code, job.retry_count) == (Status.FAILED, code, retries)
        assert job.error_meta is not None
        assert "plain_app.py" in job.error_meta, "the trace says where"

    run(app, tmp_path, body)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("nan", "result_unstorable"),
        ("nul", "result_unstorable"),
        ("object", "result_unstorable"),
        ("large", "result_too_large"),
    ],
)
def test_a_result_that_cannot_be_stored_ends_the_job(tmp_path: Path, what: str, code: str) -> None:
    """At once, with a code that says so, without a retry."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "returns", what=what)).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, code, 1)

    run(app, tmp_path, body, LANGLAUF_MAX_RESULT="2000000")


@pytest.mark.parametrize("how", ["exit", "segfault", "kill"])
def test_a_process_that_dies_costs_its_own_attempt_only(tmp_path: Path, how: str) -> None:
    """The job runs again at once, its neighbour never notices, and neither a retry nor a lost lease is counted."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        neighbour = await app.submit("waits", file=str(tmp_path / "neighbour"), polite=True)
        await lines_of(tmp_path / "neighbour", 1)
        job = (await done(app, runtime, "dies", how=how, times=2, file=str(tmp_path / "ledger"))).job
        assert (job.status, job.attempt) == (Status.COMPLETED, 3)
        assert (job.crash_count, job.lost_count, job.retry_count) == (2, 0, 0)
        assert (await kinds(runtime, job.job_id)).count("job.lease_lost") == 2
        await cancel(runtime, neighbour.job_id)
        assert (await ended(runtime, neighbour.job_id)).job.attempt == 1

    run(app, tmp_path, body)


def test_a_job_that_kills_its_process_is_given_up(tmp_path: Path) -> None:
    """After three deaths it is failed with `worker_lost`, which says how its process ended."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "dies", how="kill", times=9, file=str(tmp_path / "ledger"))).job
        assert (job.status, job.error_code, job.crash_count, job.attempt) == (Status.FAILED, "worker_lost", 3, 3)
        assert "SIGKILL" in (job.error_message or "")
        assert len(await lines_of(tmp_path / "ledger", 3)) == 3

    run(app, tmp_path, body)


def test_memory_is_limited_where_it_is_set(tmp_path: Path) -> None:
    """Too much ends the attempt with an error, not the worker; the next job has a fresh process."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "eats", megabytes=700)).job
        assert (job.status, job.error_code) == (Status.FAILED, "internal")
        assert "MemoryError" in (job.error_message or "")
        assert await result(runtime, await done(app, runtime, "eats", megabytes=10)) == 10 * 1_048_576

    run(app, tmp_path, body, LANGLAUF_PROCESS_MEMORY=str(600 * 1_048_576))


def test_a_canceled_function_is_asked_first(tmp_path: Path) -> None:
    """One that looks at `job.canceled` may tidy up and return; the job is canceled all the same."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("waits", file=str(tmp_path / "ledger"), polite=True)
        await lines_of(tmp_path / "ledger", 1)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        assert (await lines_of(tmp_path / "ledger", 2))[1] == "saw it"

    run(app, tmp_path, body, LANGLAUF_CANCEL_GRACE="600")


def test_a_canceled_function_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """After the grace its process is gone, and with it every process that it started."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("family", file=str(tmp_path / "ledger"))
        [line] = await lines_of(tmp_path / "ledger", 1)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        await _gone(int(line.split()[1]))

    run(app, tmp_path, body, LANGLAUF_LEASE_SECONDS="600")


def test_the_time_limit_is_hard(tmp_path: Path) -> None:
    """At the limit the process is gone before the end is written, whatever it was doing."""
    ledger = tmp_path / "ledger"

    async def body(limited: Langlauf, runtime: Runtime) -> None:
        await done(limited, runtime, "add", a=1)  # the process is warm now
        view = await done(limited, runtime, "waits", file=str(ledger))
        assert (view.job.status, view.job.error_code) == (Status.FAILED, "timeout")
        if ledger.exists():
            [line] = await lines_of(ledger, 1)
            assert not alive(int(line.split()[1]))

    for limit in (0.5, 2, 8, 32):  # on a busy machine a short one is over before the function has begun
        if not ledger.exists():
            limited = Langlauf()
            limited.analysis(duplicates=True)(add)
            limited.analysis(timeout=limit, max_retries=0, duplicates=True)(waits)
            run(limited, tmp_path, body, LANGLAUF_CANCEL_GRACE="600")
    assert ledger.exists()


def test_a_function_that_holds_the_interpreter_lock_keeps_its_lease(tmp_path: Path) -> None:
    """The worker beats, not the process: spinning for longer than a lease costs one attempt."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "spins", lasting=3)).job
        assert (job.status, job.attempt, job.lost_count) == (Status.COMPLETED, 1, 0)

    run(app, tmp_path, body, LANGLAUF_LEASE_SECONDS="2.5")


def test_a_process_that_leaves_something_running_is_not_used_again(tmp_path: Path) -> None:
    """What a function left behind must not compute on under the next job."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "litters"))
        await _gone(first["pid"])
        second = await result(runtime, await done(app, runtime, "litters"))
        assert first["pid"] != second["pid"]

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_at_shutdown_processes_are_ended_and_their_jobs_given_back(tmp_path: Path) -> None:
    """A job that does not end within the grace is released at once; another worker can have it."""
    pids: list[int] = []

    async def first(app: Langlauf, runtime: Runtime) -> None:
        await app.submit("waits", file=str(tmp_path / "ledger"))
        [line] = await lines_of(tmp_path / "ledger", 1)
        pids.append(int(line.split()[1]))

    async def second(app: Langlauf, runtime: Runtime) -> None:
        assert not alive(pids[0])
        await lines_of(tmp_path / "ledger", 2)
        [view] = (await runtime.services.reads.of(internal_caller(ORG)).jobs(JobFilter(limit=10))).views
        seen = await kinds(runtime, view.job.job_id)
        assert (seen[-2:], view.job.lost_count) == (["job.released", "job.attempt_started"], 0)
        await cancel(runtime, view.job.job_id)
        await ended(runtime, view.job.job_id)

    run(app, tmp_path, first, LANGLAUF_SHUTDOWN_GRACE="0")
    run(app, tmp_path, second)


def test_a_lost_supervisor_is_replaced(tmp_path: Path) -> None:
    """Its processes go with it; their jobs run again under a new one, and it is not held against them."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("waits", file=str(tmp_path / "ledger"), polite=True)
        [line] = await lines_of(tmp_path / "ledger", 1)
        pid = int(line.split()[1])
        os.kill(parent(pid), signal.SIGKILL)
        await _gone(pid)
        await lines_of(tmp_path / "ledger", 2)
        await cancel(runtime, job.job_id)
        view = await ended(runtime, job.job_id)
        assert (view.job.status, view.job.crash_count, view.job.lost_count) == (Status.CANCELED, 0, 1)

    run(app, tmp_path, body, LANGLAUF_CANCEL_GRACE="600")


def test_a_function_that_is_not_what_its_name_says_is_refused_at_the_start(tmp_path: Path) -> None:
    """A process would run something else; that is found before the first job."""
    hidden = Langlauf()

    def other(job: PlainJob) -> None:
        """Not the function of its name."""

    other.__module__, other.__qualname__ = add.__module__, add.__qualname__
    hidden.analysis(name="other")(other)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        raise AssertionError("it started")

    with pytest.raises(RegistrationError, match="above all other decorators"):
        run(hidden, tmp_path, body)


def test_an_application_that_cannot_be_loaded_fails_its_jobs_with_the_reason(tmp_path: Path) -> None:
    """A module that raises when a process imports it: the job says so, and the worker goes on."""
    (tmp_path / "only_once.py").write_text(
        "import os\n"
        "if os.environ.get('LANGLAUF_TEST_LOADED'): raise RuntimeError('loaded twice')\n"
        "os.environ['LANGLAUF_TEST_LOADED'] = '1'\n"
        "def work(job): return 1\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("LANGLAUF_TEST_LOADED", "")  # so that what the module sets is undone
        import only_once  # type: ignore[import-not-found]  # written just now

        broken = Langlauf()
        broken.analysis(only_once.work)

        async def body(app: Langlauf, runtime: Runtime) -> None:
            job = (await done(app, runtime, "work")).job
            assert (job.status, job.error_code) == (Status.FAILED, "internal")
            assert "loaded twice" in (job.error_message or "")

        run(broken, tmp_path, body)


def test_a_waiting_call_gets_the_first_free_process(tmp_path: Path) -> None:
    """Not only the one that is started for it: short jobs go through the warm processes meanwhile."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        await done(app, runtime, "add", a=1)  # the process is warm now
        jobs = [await app.submit("add", a=number) for number in range(8)]
        found = [await result(runtime, await ended(runtime, job.job_id)) for job in jobs]
        assert [one["sum"] for one in found] == list(range(1, 9))
        assert len({one["pid"] for one in found}) < len(jobs)

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")
