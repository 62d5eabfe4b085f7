"""What the page for operators takes over a large store: `python -m tests.scale.ops [--jobs 1000000] [--postgres]`.

Two scenes, each the worst in its way: all jobs of one org, all ended within the last quarter of an hour; and those of a
hundred orgs over a month, a tenth of them waiting. Each page is asked for when nothing of it is remembered.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import asyncpg
import httpx2

from langlauf.settings import load_settings
from langlauf.store.queries import parse
from langlauf.store.sqlite.connection import migrate, open_connection
from tests.support.live import sample_app
from tests.support.postgres_stores import migrated_database

#: What a page may take.
LIMIT_SECONDS = 0.3
#: What is remembered is older than this when a page is asked for again.
_FORGOTTEN_SECONDS = 6.0
_ROUNDS = 5
_SQL = parse(Path(__file__).with_name("filling.sql").read_text("utf-8"))
PAGES = (
    *(f"/ops?range={span}" for span in ("15m", "1h", "24h", "7d")),
    *(f"/ops?range={span}&org=org-0" for span in ("15m", "7d")),
    "/ops/workers",
    "/ops/orgs?range=7d",
)


class Scene(NamedTuple):
    """How a store is filled: so many orgs, all ends within so many seconds, and this share of the jobs waiting."""

    name: str
    orgs: int
    seconds: int
    waiting: float


SCENES = (
    Scene("one org, all ended within 15 min", 1, 840, 0.0),
    Scene("100 orgs, a month, a tenth waits", 100, 2_600_000, 0.1),
)
_COUNTED = """(
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {jobs})
    SELECT n FROM numbers)"""
_SERIES = "generate_series(1::bigint, {jobs}::bigint) AS numbers (n)"


def statements(scene: Scene, jobs: int, *, postgres: bool) -> list[str]:
    """What fills an empty store."""
    waiting = int(jobs * scene.waiting)
    ended = jobs - waiting
    shared = {
        "now": str(time.time_ns() // 1_000),
        "apart": str(max(1, scene.seconds * 1_000_000 // max(ended, 1))),
        "orgs": str(scene.orgs),
        "false": "false" if postgres else "0",
        "lane_more": ", default_last" if postgres else "",
        "lane_values": ", max(ticket)" if postgres else "",
    }
    made = []
    for name, count in (("fill_ended", ended), ("fill_waiting", waiting), ("fill_lanes", waiting)):
        if count:
            sql = _SQL[name].replace("{numbers}", _SERIES if postgres else _COUNTED).replace("{jobs}", str(count))
            for word, value in shared.items():
                sql = sql.replace(f"{{{word}}}", value)
            made.append(sql)
    return made


@contextmanager
def sqlite_store(scene: Scene, jobs: int) -> Iterator[str]:
    """A file; indexes are kept up to date meanwhile, as they would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        connection = open_connection(path)
        migrate(connection)
        connection.execute("PRAGMA synchronous = OFF")
        for sql in statements(scene, jobs, postgres=False):
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
            for sql in statements(scene, jobs, postgres=True):
                await connection.execute(sql)
            await connection.execute("VACUUM ANALYZE jobs")
        finally:
            await connection.close()

    with migrated_database() as url:
        asyncio.run(fill(url))
        yield url


class Taken(NamedTuple):
    """What a page took, in seconds: by the clock, and of the processor's time in this process."""

    clock: float
    processor: float


async def measure(place: str) -> dict[str, list[Taken]]:
    """What each page took, round by round. Templates are read before, as on a server that has been running."""
    settings = load_settings({"LANGLAUF_STORE": place, "LANGLAUF_WORKERS": "0", "LANGLAUF_RETENTION_EVERY": "86400"})
    app = sample_app(settings=settings)
    taken: dict[str, list[Taken]] = {page: [] for page in PAGES}
    async with app.lifespan():
        transport = httpx2.ASGITransport(app.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            await client.get("/ops?org=nobody")
            for _ in range(_ROUNDS):
                for page in PAGES:
                    began, used = time.perf_counter(), time.process_time()
                    response = await client.get(page)
                    taken[page].append(Taken(time.perf_counter() - began, time.process_time() - used))
                    assert response.status_code == 200, response.text
                await asyncio.sleep(_FORGOTTEN_SECONDS)
    return taken


def main() -> int:
    """Prints a line per page: of its rounds the one in the middle, and the longest; 1 where the former is too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    options = parser.parse_args()
    slow = 0
    for scene in SCENES:
        store = postgres_store if options.postgres else sqlite_store
        began = time.perf_counter()
        with store(scene, options.jobs) as place:
            print(f"{scene.name}: {options.jobs:,} jobs, filled in {time.perf_counter() - began:.0f} s", flush=True)
            for page, taken in asyncio.run(measure(place)).items():
                usual = median(one.clock for one in taken)
                used = median(one.processor for one in taken)
                longest = max(one.clock for one in taken)
                slow += usual > LIMIT_SECONDS
                print(
                    f"  {usual * 1_000:5.0f} ms (longest {longest * 1_000:.0f}, processor {used * 1_000:.0f})  {page}",
                    flush=True,
                )
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
