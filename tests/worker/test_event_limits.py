"""The bounds of one job with a worker at work: the analysis goes on, and the log says once what is left out."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.running_app import ORG, done, result, run
from tests.support.verified_file import verify_file


async def _events(runtime: Runtime, job_id: str) -> list[tuple[str, str]]:
    events = await runtime.services.reads.of(internal_caller(ORG)).events(job_id, after=0, limit=1_000)
    return [(event.event_type, event.payload_json) for event in events]


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record for record in caplog.records if record.getMessage() == "job_limit_reached"]
    return [record.__dict__["fields"]["limit"] for record in lines]


def test_an_analysis_that_reports_without_end_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its calls return as always, what is stored has an end, and its result is there."""
    app = Langlauf()

    @app.analysis
    async def chatty(job: Job, times: int) -> dict[str, Any]:
        for number in range(times):
            await job.progress(step=f"step {number}")
        await job.partial({"n": times}, progress=90)
        return {"n": times}

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "chatty", times=60)
        assert await result(runtime, view) == {"n": 60}
        events = await _events(runtime, view.job.job_id)
        assert len(events) == view.job.event_seq == 37
        assert [one for one in events if "limit" in one[1]] == [
            ("job.progress", '{"progress_percent":0,"step":"step 33","limit":"events"}')
        ]
        assert (view.job.limit_reached, view.job.partial_count) == ("events", 0)

    with caplog.at_level(logging.WARNING):
        run(app, tmp_path, body, LANGLAUF_LIMITS="max_job_events=40")
    assert _told(caplog) == ["events"]
    assert verify_file(str(tmp_path / "store.db")) == []


def test_progress_goes_on_where_partials_are_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The percent and step of a partial that is not stored are news all the same."""
    app = Langlauf()

    @app.analysis
    async def large(job: Job) -> str:
        names = [await job.partial("x" * 998, progress=10 * number, step=f"part {number}") for number in range(1, 6)]
        assert len(set(names)) == 5
        return "y" * 5_000

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "large")
        assert await result(runtime, view) == "y" * 5_000
        assert (view.job.limit_reached, view.job.partial_count, view.job.partial_bytes) == ("partials", 2, 2_000)
        assert [one for one in await _events(runtime, view.job.job_id) if one[0] == "job.progress"] == [
            ("job.progress", '{"progress_percent":30,"step":"part 3","limit":"partials"}'),
            ("job.progress", '{"progress_percent":40,"step":"part 4"}'),
            ("job.progress", '{"progress_percent":50,"step":"part 5"}'),
        ]

    with caplog.at_level(logging.WARNING):
        run(app, tmp_path, body, LANGLAUF_LIMITS="max_job_partials=2500")
    assert _told(caplog) == ["partials"]
    assert verify_file(str(tmp_path / "store.db")) == []


def test_a_limit_that_was_reached_holds_for_later_attempts(tmp_path: Path) -> None:
    """A retry stores nothing more, and its end has room."""
    app = Langlauf()

    @app.analysis(transient=(OSError,))
    async def again(job: Job) -> int:
        for number in range(20):
            await job.progress(step=f"step {number} of attempt {job.attempt}")
        if job.attempt < 3:
            raise OSError("not yet")
        return job.attempt

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "again")
        assert await result(runtime, view) == 3
        kinds = [kind for kind, _ in await _events(runtime, view.job.job_id)]
        assert kinds[6:] == ["job.retry_scheduled", "job.attempt_started"] * 2 + ["job.completed"]

    run(app, tmp_path, body, LANGLAUF_LIMITS="max_job_events=10")
    assert verify_file(str(tmp_path / "store.db")) == []


def test_writes_of_one_attempt_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many reports an analysis makes at once, a few of them are in a batch, and all are written in order."""
    app = Langlauf()
    written: list[int] = []
    run_statements = SqliteStore._run_statements

    def counted(self: SqliteStore, batch: Sequence[Any], *, waits: bool = True) -> list[Any]:
        written.append(sum(isinstance(operation, Recording) for operation in batch))
        return run_statements(self, batch, waits=waits)

    monkeypatch.setattr(SqliteStore, "_run_statements", counted)

    @app.analysis
    async def chatty(job: Job) -> int:
        await asyncio.gather(*(job.progress(step=f"step {number}") for number in range(200)))
        return 1

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "chatty")
        events = await _events(runtime, view.job.job_id)
        steps = [payload for kind, payload in events if kind == "job.progress"]
        assert steps == [f'{{"progress_percent":0,"step":"step {number}"}}' for number in range(200)]

    run(app, tmp_path, body)
    assert sum(written) >= 200
    assert max(written) <= 36
