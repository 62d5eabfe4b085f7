"""Statuses that are asked for at the same time share a call, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.event import Event
from langlauf.domain.read_models import StatusView
from langlauf.hints import Hints
from langlauf.store.postgres import reads
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.sql import event_from
from tests.support.postgres_stores import migrated_database
from tests.support.stores import SetClock
from tests.support.submissions import accept


def _run(body: Callable[[PostgresStore, SetClock], Awaitable[None]]) -> None:
    async def main(url: str) -> None:
        clock = SetClock()
        store = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        try:
            await body(store, clock)
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


async def _asked(store: PostgresStore, *jobs: tuple[str, str]) -> list[StatusView | BaseException | None]:
    """Ask for all of them at once, each as its org."""
    calls = (store.tenant(org).status(job_id, events=9, inline_limit=99) for org, job_id in jobs)
    return await asyncio.gather(*calls, return_exceptions=True)


def test_each_org_sees_its_own_jobs_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the others ask for: a job of another org is not there, nor is an id that cannot be stored."""
    calls: list[str] = []

    async def body(store: PostgresStore, clock: SetClock) -> None:
        first = (await accept(store, clock, org="org-a")).job_id
        second = (await accept(store, clock, org="org-b")).job_id
        rows = store._pool.rows

        async def counted(function: str, *values: Any) -> list[Any]:
            calls.append(function)
            return await rows(function, *values)

        monkeypatch.setattr(store._pool, "rows", counted)
        wanted = [("org-a", first), ("org-b", first), ("org-a", "\0"), ("org-b", second), ("org-a", second)]
        found = await _asked(store, *wanted)
        assert [view and view.view.job.job_id for view in found if not isinstance(view, BaseException)] == [
            first,
            None,
            None,
            second,
            None,
        ]
        assert calls == ["read_statuses"]

    _run(body)


def test_a_record_that_cannot_be_read_fails_its_reader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an event that a newer version has written."""

    async def body(store: PostgresStore, clock: SetClock) -> None:
        first, second = [(await accept(store, clock, org=org)).job_id for org in ("org-a", "org-b")]

        def read(row: Any) -> Event:
            if row["job_id"] == first:
                raise ValueError("job.future")
            return event_from(row)

        monkeypatch.setattr(reads, "event_from", read)
        broken, whole = await _asked(store, ("org-a", first), ("org-b", second))
        assert isinstance(broken, ValueError)
        assert isinstance(whole, StatusView)

    _run(body)


def test_a_burst_of_polls_is_answered() -> None:
    """However many callers are woken at the same moment."""

    async def body(store: PostgresStore, clock: SetClock) -> None:
        job_id = (await accept(store, clock)).job_id
        found = await _asked(store, *[("org-a", job_id)] * 1_000)
        assert {type(one) for one in found} == {StatusView}

    _run(body)


def test_a_database_that_does_not_answer_holds_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those behind the first call are refused as well, instead of waiting for one call after another."""
    monkeypatch.setattr(reads, "_LONGEST_WAIT", 0.1)

    async def body(store: PostgresStore, clock: SetClock) -> None:
        job_id = (await accept(store, clock)).job_id
        answers = asyncio.Event()
        rows = store._pool.rows

        async def held(function: str, *values: Any) -> list[Any]:
            await answers.wait()
            return await rows(function, *values)

        monkeypatch.setattr(store._pool, "rows", held)
        found = await _asked(store, *[("org-a", job_id)] * 100)
        assert {type(one) for one in found} == {StoreUnavailable}
        monkeypatch.setattr(reads, "_LONGEST_WAIT", 60)
        answers.set()
        [answered] = await _asked(store, ("org-a", job_id))
        assert isinstance(answered, StatusView)

    _run(body)
