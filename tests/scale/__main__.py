"""What a large store costs: `python -m tests.scale [lists|ops|retention] [--jobs N] [--postgres]`.

Each page, over a million jobs, is asked for several times when nothing of it is remembered, and the time in the middle
is told, with the longest, and what of it was this process at work. Exit code 1 where one takes longer than it may. What
cleaning up costs those who submit meanwhile is told in `retention.py`.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import NamedTuple

import asyncpg
import httpx2

from langlauf.settings import load_settings
from langlauf.store.sqlite.connection import migrate, open_connection
from tests.scale import lists, ops, retention
from tests.scale.fixture import Scene
from tests.support.live import sample_app
from tests.support.postgres_stores import migrated_database

LIMIT_SECONDS = 0.3
_ROUNDS = 5
_SCENES = {"lists": lists.SCENES, "ops": ops.SCENES}
_ORG = {"X-Org-Id": "org-a"}
_SETTINGS = {"LANGLAUF_WORKERS": "0", "LANGLAUF_LIMITS": "retention_every=86400"}


class Taken(NamedTuple):
    """What a page took, in seconds: by the clock, and of the processor's time in this process."""

    clock: float
    processor: float


@contextmanager
def sqlite_store(scene: Scene, jobs: int) -> Iterator[str]:
    """A file; indexes are kept up to date meanwhile, as they would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        connection = open_connection(path)
        migrate(connection)
        connection.execute("PRAGMA synchronous = OFF")
        for sql in scene.statements(jobs, False):
            connection.execute(sql)
        connection.close()
        yield path


@contextmanager
def postgres_store(scene: Scene, jobs: int) -> Iterator[str]:
    """A database of the tests' own server."""

    async def fill(url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET search_path = langlauf, pg_temp; SET synchronous_commit = off")
            for sql in scene.statements(jobs, True):
                await connection.execute(sql, timeout=None)
            await connection.execute("VACUUM ANALYZE", timeout=None)
        finally:
            await connection.close()

    with migrated_database() as url:
        asyncio.run(fill(url))
        yield url


async def measure(place: str, scene: Scene, jobs: int) -> dict[str, list[Taken]]:
    """What each page took, round by round. The first round is not told: templates are read and plans are made in it."""
    app = sample_app(settings=load_settings({"LANGLAUF_STORE": place, **_SETTINGS}))
    taken: dict[str, list[Taken]] = {page: [] for page in scene.pages(jobs)}
    async with app.lifespan():
        transport = httpx2.ASGITransport(app.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            for _ in range(1 + _ROUNDS):
                for page, times in taken.items():
                    began, used = time.perf_counter(), time.process_time()
                    response = await client.get(page, headers=_ORG)
                    times.append(Taken(time.perf_counter() - began, time.process_time() - used))
                    assert response.status_code == 200, response.text
                await asyncio.sleep(scene.pause)
    return {page: times[1:] for page, times in taken.items()}


def told(page: str, taken: list[Taken]) -> str:
    """One page in a line."""
    usual, used = median(one.clock for one in taken), median(one.processor for one in taken)
    longest = max(one.clock for one in taken)
    return f"  {usual * 1_000:5.0f} ms (longest {longest * 1_000:.0f}, processor {used * 1_000:.0f})  {page}"


def clean(store: Callable[[Scene, int], AbstractContextManager[str]], jobs: int) -> int:
    """Prints what cleaning up took, and what it cost others."""
    began = time.perf_counter()
    with store(retention.SCENE, jobs) as place:
        print(f"{retention.SCENE.name}: {jobs:,} jobs, filled in {time.perf_counter() - began:.0f} s", flush=True)
        found = asyncio.run(retention.measure(place))
    print("\n".join(filter(None, retention.told(found))))
    return 1 if found.complaints() or found.ratio >= retention.MOST_SLOWER else 0


def main() -> int:
    """Prints a line per page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="?", choices=(*_SCENES, "retention"), help="all pages where nothing is said")
    parser.add_argument("--jobs", type=int, help="a million; for retention as many as have over a million rows")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    options = parser.parse_args()
    store = postgres_store if options.postgres else sqlite_store
    if options.which == "retention":
        return clean(store, options.jobs or retention.JOBS)
    jobs = options.jobs or 1_000_000
    slow = 0
    for scene in _SCENES.get(options.which, (*lists.SCENES, *ops.SCENES)):
        began = time.perf_counter()
        with store(scene, jobs) as place:
            print(f"{scene.name}: {jobs:,} jobs, filled in {time.perf_counter() - began:.0f} s", flush=True)
            for page, taken in asyncio.run(measure(place, scene, jobs)).items():
                slow += median(one.clock for one in taken) > LIMIT_SECONDS
                print(told(page, taken), flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
