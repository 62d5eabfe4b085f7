"""What analyses show beside their results, and what they look back at: coroutines and processes alike."""

from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf, Result, views
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.domain.read_models import JobView
from langlauf.domain.result import LARGEST_VIEWS, AnyView, views_from
from langlauf.worker import attempt_store
from tests.support import plain_app as plain
from tests.support.running_app import ORG, done, result, run

SHOWN: list[list[AnyView]] = [[views.markdown("So far")], [views.table(at="/rows")]]


def _plain_app() -> Langlauf:
    app = Langlauf()
    app.analysis(duplicates=True)(plain.shows)
    return app


def _coroutine_app() -> Langlauf:
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def shows(job: Job, rows: int, wrong: str = "") -> Any:
        before = await job.previous(rows=rows)
        await job.partial({"rows": []}, views=[views.markdown("So far")])
        if wrong == "partial":
            await job.partial({}, views=[views.table([[float("nan")]])])
        large = [views.markdown("x" * LARGEST_VIEWS)] if wrong == "final" else []
        return Result({"rows": [rows], "before": before}, summary="short", views=[views.table(at="/rows"), *large])

    return app


@pytest.fixture(params=["coroutine", "plain"])
def app(request: pytest.FixtureRequest) -> Langlauf:
    """The same analysis, written both ways."""
    return _plain_app() if request.param == "plain" else _coroutine_app()


async def _shown(runtime: Runtime, view: JobView) -> list[list[AnyView]]:
    reads = runtime.services.reads.of(internal_caller(ORG))
    shown = []
    for snapshot in await reads.results(view.job.job_id):
        found = await reads.result(snapshot.result_id, latest=False)
        assert found is not None
        shown.append(views_from(found.delivered.views))
    return shown


def test_views_arrive_with_their_snapshots(app: Langlauf, tmp_path: Path) -> None:
    """Those of a partial and those of the final, and the summary that a result names."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "shows", rows=3)
        assert await result(runtime, view) == {"rows": [3], "before": None}
        assert await _shown(runtime, view) == SHOWN
        *_, final = await runtime.services.reads.of(internal_caller(ORG)).results(view.job.job_id)
        assert final.summary_json == '"short"'

    run(app, tmp_path, body)


@pytest.mark.parametrize(("wrong", "code"), [("partial", "result_unstorable"), ("final", "result_too_large")])
def test_views_that_cannot_be_kept_end_the_job(app: Langlauf, tmp_path: Path, wrong: str, code: str) -> None:
    """As results do: at once, under the same codes, and with what was shown before."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "shows", rows=3, wrong=wrong)
        assert (view.job.status, view.job.error_code, view.job.attempt) == ("failed", code, 1)
        assert await _shown(runtime, view) == SHOWN[:1]

    run(app, tmp_path, body)


def test_a_job_sees_what_the_last_one_with_the_same_values_found(app: Langlauf, tmp_path: Path) -> None:
    """Not one with other values, and not one that failed."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        await done(app, runtime, "shows", rows=1)
        await done(app, runtime, "shows", rows=2)
        await done(app, runtime, "shows", rows=1, wrong="final")
        again = await result(runtime, await done(app, runtime, "shows", rows=1))
        assert again == {"rows": [1], "before": {"rows": [1], "before": None}}
        third = await result(runtime, await done(app, runtime, "shows", rows=1))
        assert third["before"] == again

    run(app, tmp_path, body)


def _looking_app(seen: list[Any], **match: Any) -> Langlauf:
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def look(job: Job, number: int, share: float = 1, flag: bool = False) -> int:
        seen.append(await job.previous(**match))
        return number

    return app


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ({}, 2),
        ({"number": 1}, 1),
        ({"share": 1}, 2),
        ({"flag": False}, 2),
        ({"flag": 0}, None),
        ({"number": True}, None),
    ],
)
def test_values_are_compared_as_json_has_them(tmp_path: Path, match: dict[str, Any], found: int | None) -> None:
    """Defaults count as given, 1 is 1.0, and truth is no number."""
    seen: list[Any] = []

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for number in (1, 2, 3):
            await done(app, runtime, "look", number=number)
        assert seen[-1] == found

    run(_looking_app(seen, **match), tmp_path, body)


def test_a_value_that_the_analysis_does_not_take_is_a_mistake(tmp_path: Path) -> None:
    """The message names those that it takes."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "look", number=1)
        assert view.job.error_message is not None
        assert "look has no parameter nummer; it has number" in view.job.error_message

    run(_looking_app([], nummer=1), tmp_path, body)


def test_a_look_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes step by step, and gives up after some of them."""
    monkeypatch.setattr(attempt_store, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(attempt_store, "MOST_STEPS", 2)
    seen: list[Any] = []

    async def body(app: Langlauf, runtime: Runtime) -> None:
        for number in (1, 2, 3, 4):
            await done(app, runtime, "look", number=number)
        assert seen == [None, 1, 1, None]

    run(_looking_app(seen, number=1), tmp_path, body)
