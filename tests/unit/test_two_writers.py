"""Two processes that write to one file in turns."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.support.stores import JobFactory, SetClock, opened, query


def test_names_outlast_the_other_writer_and_counts_do_not(tmp_path: Path) -> None:
    """Keys go on where the other one left them, and nothing of an org is looked up by name again."""
    path, clock = tmp_path / "s.db", SetClock()

    async def main() -> None:
        async with opened(path, clock) as one, opened(path, clock) as other:
            for number, store in enumerate((one, other, one, other)):
                await JobFactory(store, clock).queued(query=f"Bern {number}")
            names = other._cache.orgs
            await JobFactory(one, clock).queued(query="Basel")
            await JobFactory(other, clock).queued(query="Chur")
            assert other._cache.orgs is names
            assert (other._cache.waiting, (await one.depth()).waiting) == (6, 6)

    asyncio.run(main())
    assert query(path, "SELECT job FROM job_rows ORDER BY queued_at") == [(number,) for number in range(1, 7)]


def test_a_writer_waits_for_the_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tries again shortly after each refusal, and is there as soon as the other one has committed."""
    path, clock = tmp_path / "s.db", SetClock()
    tries: list[float] = []

    async def main() -> None:
        async with opened(path, clock) as store:
            other = apsw.Connection(str(path))
            other.execute("BEGIN IMMEDIATE")

            def wait(seconds: float) -> None:
                tries.append(seconds)
                if len(tries) == 3:
                    other.execute("COMMIT")

            monkeypatch.setattr("langlauf.store.sqlite.connection.time.sleep", wait)
            await JobFactory(store, clock).queued()
            other.close()

    asyncio.run(main())
    assert (len(tries), max(tries) < 0.01) == (3, True)
