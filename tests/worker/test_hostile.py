"""Functions that misuse their process: each fails alone, without effect on other jobs."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from langlauf import Langlauf
from langlauf.bootstrap import Runtime
from langlauf.domain.state import Status
from tests.support.plain_app import app as plain_app
from tests.support.processes import alive, parent
from tests.support.running_app import cancel, done, ended, lines_of, result, run
from tests.support.server import environment
from tests.worker.hostile_app import app


def test_a_function_may_use_a_pool_of_its_own(tmp_path: Path) -> None:
    """Processes that it forks can be ended by signals, as anywhere else."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        assert await result(runtime, await done(app, runtime, "pools")) == [2, 4, 6]

    run(app, tmp_path, body)


def test_a_forked_process_can_be_ended_from_its_first_moment(tmp_path: Path) -> None:
    """A pool that is ended before one of its processes ran a line does not wait for that process for ever."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        assert await result(runtime, await done(app, runtime, "forks")) == [signal.SIGTERM]

    run(app, tmp_path, body)


@pytest.mark.parametrize("how", ["input", "gzip"])
def test_the_end_of_a_file_is_an_error_like_others(tmp_path: Path, how: str) -> None:
    """It is not taken for the end of the worker."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "ends_early", how=how)).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "internal", 1)
        assert "EOFError" in (job.error_message or "")

    run(app, tmp_path, body)


def test_a_thread_that_is_left_behind_cannot_speak_into_the_end(tmp_path: Path) -> None:
    """The result arrives whole."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        assert len(await result(runtime, await done(app, runtime, "babbles"))) == 8_000_000

    run(app, tmp_path, body)


@pytest.mark.parametrize("how", ["closes", "replaces"])
def test_without_its_output_a_function_still_returns(tmp_path: Path, how: str) -> None:
    """Whatever it did to it."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        assert await result(runtime, await done(app, runtime, "streams", how=how)) == how
        assert await result(runtime, await done(app, runtime, "decimals")) == "fine"

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


@pytest.mark.parametrize("number", [signal.SIGRTMIN + 2, signal.SIGXCPU])
def test_a_death_has_a_name_whatever_the_signal(tmp_path: Path, number: int) -> None:
    """It counts as a crash, and the job runs again."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "dies_by", number=number)).job
        assert (job.status, job.attempt, job.crash_count) == (Status.COMPLETED, 2, 1)

    run(app, tmp_path, body)


@pytest.mark.parametrize("analysis", ["holds_the_line", "dies_in_map"])
def test_a_death_is_noticed_while_another_process_has_its_socket(tmp_path: Path, analysis: str) -> None:
    """A process that it left, or others that compute for it, do not make it look alive."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, analysis)).job
        assert (job.status, job.attempt, job.crash_count) == (Status.COMPLETED, 2, 1)

    run(app, tmp_path, body)


@pytest.mark.parametrize("analysis", ["bad_step", "bad_step_on_loop"])
def test_braces_in_a_step_break_nothing(tmp_path: Path, analysis: str) -> None:
    """A step that cannot be filled in is shown as it is, in both kinds of functions alike."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, analysis)).job
        assert (job.status, job.step) == (Status.COMPLETED, "{name}")

    run(app, tmp_path, body)


def test_a_process_in_a_session_of_its_own_ends_with_the_job(tmp_path: Path) -> None:
    """Force reaches everything that a function started."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("escapes", file=str(tmp_path / "ledger"))
        [pid] = await lines_of(tmp_path / "ledger", 1)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        await _gone(int(pid))

    run(app, tmp_path, body)


async def _gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while alive(pid):  # noqa: ASYNC110 - the end of a process of another parent cannot be awaited
            await asyncio.sleep(0.01)


def test_a_function_finds_its_process_as_it_was(tmp_path: Path) -> None:
    """Folder, environment, timers, handlers and output are put back before the next job, which may be another org's."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "disturbs", folder=str(tmp_path / "gone")))
        found = await result(runtime, await done(app, runtime, "looks"))
        assert found == {
            "pid": first["pid"],
            "folder": str(Path.cwd()),
            "environment": None,
            "alarm": 0,
            "handled": True,
        }

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_a_function_finds_the_settings_of_python_and_the_system_as_they_were(tmp_path: Path) -> None:
    """Each of them, in the same process; only what is drawn at random is never the same."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "sets", disturb=True))
        after = await result(runtime, await done(app, runtime, "sets", disturb=False))
        assert (after["pid"], after["found"]) == (first["pid"], first["found"])
        following = random.Random(1)
        assert first["drawn"] == following.getrandbits(48)
        assert after["drawn"] != following.getrandbits(48)

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_a_process_that_gave_something_up_for_good_is_not_used_again(tmp_path: Path) -> None:
    """The next job has another one."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "steps_down"))
        assert (await result(runtime, await done(app, runtime, "looks")))["pid"] != first

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_an_orphan_is_ended_with_the_process_it_comes_from(tmp_path: Path) -> None:
    """Such a process is not used again."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "orphans", file=str(tmp_path / "ledger")))
        [pid] = await lines_of(tmp_path / "ledger", 1)
        await _gone(int(pid))
        await _gone(first["pid"])

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_many_items_do_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    """They are encoded and looked up in threads."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("many", count=1_000)
        longest, last = 0.0, time.thread_time()  # seconds of the processor: other programs do not count
        end = asyncio.create_task(ended(runtime, job.job_id))
        while not end.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()
        view = await end
        assert await result(runtime, view) == sum(range(1_000))
        assert longest < 1

    run(app, tmp_path, body)


def test_a_stopped_supervisor_delays_neither_a_cancel_nor_the_shutdown(tmp_path: Path) -> None:
    """What it does not end is ended without it."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("waits", file=str(tmp_path / "ledger"))
        [line] = await lines_of(tmp_path / "ledger", 1)
        pid = int(line.split()[1])
        os.kill(parent(pid), signal.SIGSTOP)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        await _gone(pid)
        again = await app.submit("waits", file=str(tmp_path / "again"))
        [line] = await lines_of(tmp_path / "again", 1)
        os.kill(parent(int(line.split()[1])), signal.SIGSTOP)
        assert again.status is Status.QUEUED

    run(plain_app, tmp_path, body, LANGLAUF_LEASE_SECONDS="600", LANGLAUF_SHUTDOWN_GRACE="0")


_SCRIPT = """
import asyncio
from langlauf import Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.settings import load_settings
app = Langlauf()

@app.analysis(max_retries=0)
def work(job, n: int):
    return n

async def main():
    app.use(load_settings(store="memory://"))
    async with app.lifespan():
        job = await app.submit("work", n=7)
        followers = app.runtime.services.followers
        view = await followers.until(internal_caller("default-org"), job.job_id, 30, lambda view: view.job.terminal)
        print(view.job.status, view.job.error_message)

GUARD
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("guard", "module", "said"),
    [('if __name__ == "__main__":', "token.py", "completed"), ("if True:", "other.py", "__main__")],
)
def test_files_beside_a_script_and_a_missing_guard(tmp_path: Path, guard: str, module: str, said: str) -> None:
    """A file there does not stand for a module of Python's own; a script that starts itself again says what to do."""
    (tmp_path / module).write_text("raise RuntimeError('not the one')\n", encoding="utf-8")
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "script.py").write_text(_SCRIPT.replace("GUARD", guard), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "scripts/script.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said in ran.stdout, ran.stdout + ran.stderr
