"""Lists over many jobs: a page looks at a bounded number of them, and lets others read in between."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from langlauf.domain.read_models import JobFilter
from langlauf.domain.state import Status
from langlauf.store import reads as bounded_scan
from langlauf.store.sqlite import reads
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.live import live
from tests.support.stores import SetClock, opened
from tests.support.submissions import ORG, accept, cancel_request

MANY = 300


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few hundred jobs are many."""
    monkeypatch.setattr(bounded_scan, "_ROWS_AT_ONCE", 10)
    monkeypatch.setattr(bounded_scan, "_ROWS_OF_TEXT", 5)
    monkeypatch.setattr(bounded_scan, "_FIRST_ROWS", 10)
    monkeypatch.setattr(bounded_scan, "MOST_LOOKED_AT", 40)
    monkeypatch.setattr(reads, "FEW", 0)


async def _many(store: SqliteStore, clock: SetClock) -> str:
    """Many jobs, of which the oldest alone was canceled and has its own words; returns its id."""
    oldest = await accept(store, clock, query="Needle")
    await store.cancel(cancel_request(oldest.job_id))
    clock.pass_(1)
    await asyncio.gather(*(accept(store, clock) for _ in range(MANY)))
    return oldest.job_id


@pytest.mark.parametrize("which", [{"status": Status.CANCELED}, {"text": "needle"}, {"analysis": "none"}])
def test_what_hardly_any_job_fits_is_found_in_steps(which: dict[str, Any]) -> None:
    """Pages without a row that say where to go on, and at the end what was looked for; nothing twice."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            oldest = await _many(store, clock)
            found: list[str] = []
            before, pages = None, 0
            while pages == 0 or before is not None:
                page = await store.tenant(ORG).jobs(JobFilter(before=before, **which))
                found += [view.job.job_id for view in page.views]
                before, pages = page.after, pages + 1
            assert found == ([] if "analysis" in which else [oldest])
            assert pages > MANY // 50

    asyncio.run(main())


def test_a_list_does_not_keep_others_waiting() -> None:
    """Whoever reads one job meanwhile has it before the list is done."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            oldest = await _many(store, clock)
            task = asyncio.ensure_future(store.tenant(ORG).jobs(JobFilter(text="nothing")))
            await asyncio.sleep(0)
            assert await store.tenant(ORG).job(oldest) is not None
            assert not task.done()
            await task

    asyncio.run(main())


def test_history_counts_all_and_pages_anywhere(tmp_path: Path) -> None:
    """The total and any page are what they would be in one go."""
    with live(tmp_path) as server:
        jobs = [server.wait(server.submit("echo", query=f"{number}")["job_id"]) for number in range(25)]
        entries = [entry["job_id"] for entry in _history(server, limit=200)["history"]]
        assert entries == [job["job_id"] for job in reversed(jobs)]
        for offset in (0, 3, 9, 10, 11, 24, 25, 1_000):
            page = _history(server, limit=12, offset=offset)
            assert page["total"] == 25
            assert [entry["job_id"] for entry in page["history"]] == entries[offset : offset + 12]


def _history(server: Any, **query: int) -> dict[str, Any]:
    body: dict[str, Any] = server.http.get("/analyze/history", params=query).json()
    return body
