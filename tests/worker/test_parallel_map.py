"""`job.map`: chunks side by side in processes, each kept, none computed twice."""

import os
from pathlib import Path
from typing import Any

import pytest

from langlauf import Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.job import Accepted
from langlauf.domain.state import Status
from tests.support.plain_app import app
from tests.support.running_app import ORG, cancel, done, ended, kinds, lines_of, result, run


def _items(file: Path, count: int, **fails: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"n": number, "file": str(file)} for number in range(count)]
    for name, how in fails.items():
        items[int(name.removeprefix("at"))]["fail"] = how
    return items


@pytest.mark.parametrize("analysis", ["maps", "maps_on_loop"])
def test_results_come_in_the_order_of_the_items(tmp_path: Path, analysis: str) -> None:
    """From a plain function and from a coroutine alike; equal items are computed once."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        items = _items(tmp_path / "ledger", 5)
        found = await result(runtime, await done(app, runtime, analysis, items=[*items, items[2]]))
        assert found["squares"] == [0, 1, 4, 9, 16, 4]
        assert sorted(await lines_of(tmp_path / "ledger", 5)) == [f"square {number}" for number in range(5)]
        if analysis == "maps_on_loop":
            assert found["cubes"] == [1, 8, 8], "a chunk may be a coroutine function"

    run(app, tmp_path, body)


def test_chunks_run_side_by_side(tmp_path: Path) -> None:
    """As many processes as are set, and no more."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        found = await result(
            runtime, await done(app, runtime, "spreads", parts=6, together=3, file=str(tmp_path / "pids"))
        )
        assert len(set(found["pids"])) == 3
        assert os.getpid() not in found["pids"]

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="3")


def test_a_map_with_a_step_reports_how_far_it_is(tmp_path: Path) -> None:
    """Each finished chunk is told; the percent never falls."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "maps", items=_items(tmp_path / "ledger", 4))
        assert (await kinds(runtime, view.job.job_id)).count("job.progress") == 4
        assert view.job.step is not None
        assert view.job.step.startswith("Square ")

    run(app, tmp_path, body)


@pytest.mark.parametrize("analysis", ["maps", "maps_on_loop"])
def test_a_chunk_whose_process_dies_costs_an_attempt_and_no_other_chunk(tmp_path: Path, analysis: str) -> None:
    """The next attempt computes what is missing; everything that was finished is kept."""
    ledger = tmp_path / "ledger"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, analysis, items=_items(ledger, 6, at5="die"))
        assert (await result(runtime, view))["squares"] == [0, 1, 4, 9, 16, 25]
        assert (view.job.attempt, view.job.crash_count, view.job.retry_count) == (2, 1, 0)
        lines = ledger.read_text(encoding="utf-8").splitlines()
        assert sorted(lines) == [*(f"square {number}" for number in range(5)), "square 5", "square 5"]

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


@pytest.mark.parametrize("analysis", ["maps", "maps_on_loop"])
def test_a_chunk_that_fails_fails_the_job_and_a_resume_goes_on_from_there(tmp_path: Path, analysis: str) -> None:
    """Its failure is the job's; a retry by hand starts with the finished chunks."""
    ledger = tmp_path / "ledger"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, analysis, items=_items(ledger, 4, at3="value"))).job
        assert (job.status, job.error_code) == (Status.FAILED, "validation_error")
        assert "cannot square 3" in (job.error_message or "")
        caller = internal_caller(ORG)
        again = await runtime.services.control.retry(caller, job.job_id, resume=True, idempotency_key=None)
        assert isinstance(again, Accepted)
        assert (await ended(runtime, again.job.job_id)).job.status is Status.FAILED
        lines = ledger.read_text(encoding="utf-8").splitlines()
        assert (lines.count("square 3"), len(lines)) == (2, 5)

    run(app, tmp_path, body, LANGLAUF_MAP_PROCESSES="1")


def test_a_canceled_map_ends_its_processes(tmp_path: Path) -> None:
    """Nothing of it computes on."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("spreads", parts=500, together=500, file=str(tmp_path / "pids"))
        await lines_of(tmp_path / "pids", 1)
        await cancel(runtime, job.job_id)
        assert (await ended(runtime, job.job_id)).job.status is Status.CANCELED
        assert (await result(runtime, await done(app, runtime, "add", a=1)))["sum"] == 2

    run(app, tmp_path, body)
