"""What the lists take over a large store: `python -m tests.scale.lists [--jobs 1000000] [--postgres]`.

All jobs are one org's. In the first scene a few of the oldest failed, in the second all did, each with a message of
its own. The pages are the worst in their way: filters that nothing fits, the far end of the history, an inbox that
nobody read. Each is asked for three times, and the shortest time is told: others use the machine as well.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2

from langlauf.settings import load_settings
from langlauf.store.queries import parse
from langlauf.store.sqlite.connection import migrate, open_connection
from tests.support.live import sample_app
from tests.support.postgres_stores import migrated_database

LIMIT_SECONDS = 0.3
_ROUNDS = 3
_MICROSECONDS_APART = 2_500_000
_SQL = parse(Path(__file__).with_name("lists.sql").read_text("utf-8"))
_ORG = {"X-Org-Id": "org-a"}
SCENES = {"the oldest thousand failed": "n <= 1000", "all failed": "n > 0"}
_COUNTED = """(
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {jobs})
    SELECT n FROM numbers)"""
_SERIES = "generate_series(1, {jobs}) AS numbers (n)"


def pages(jobs: int) -> tuple[str, ...]:
    """Everything that lists."""
    return (
        "/jobs",
        "/jobs?status=completed",
        "/jobs?status=failed",
        "/jobs?status=queued",
        "/jobs?status=failed&analysis=analysis-1&error=code_1&range=30d",
        "/jobs?analysis=analysis-3",
        "/jobs?analysis=nobody",
        "/jobs?error=nobody",
        "/jobs?q=nowhere",
        "/jobs?status=failed&q=nowhere",
        f"/jobs?q=job-{2 * jobs}",
        "/errors?range=24h",
        "/errors?range=all",
        "/inbox",
        "/analyze/history?limit=50",
        f"/analyze/history?limit=50&offset={jobs - 1_050}",
        "/analyze/jobs?status=canceled&limit=200",
    )


def statements(failed: str, jobs: int, *, postgres: bool) -> list[str]:
    """What fills an empty store."""
    words = {
        "numbers": _SERIES if postgres else _COUNTED,
        "failed": failed,
        "jobs": str(jobs),
        "now": str(time.time_ns() // 1_000),
        "apart": f"CAST({_MICROSECONDS_APART} AS bigint)",
        "false": "false" if postgres else "0",
        "input_more": ", queued_at" if postgres else "",
        "input_values": ", queued_at" if postgres else "",
    }
    made = list(_SQL.values())
    for word, value in words.items():
        made = [sql.replace(f"{{{word}}}", value) for sql in made]
    return made


@contextmanager
def sqlite_store(failed: str, jobs: int) -> Iterator[str]:
    """A file; indexes are kept up to date meanwhile, as they would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        connection = open_connection(path)
        migrate(connection)
        connection.execute("PRAGMA synchronous = OFF")
        for sql in statements(failed, jobs, postgres=False):
            connection.execute(sql)
        connection.close()
        yield path


@contextmanager
def postgres_store(failed: str, jobs: int) -> Iterator[str]:
    """A database of the tests' own server."""

    async def fill(url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET search_path = langlauf, pg_temp; SET synchronous_commit = off")
            for sql in statements(failed, jobs, postgres=True):
                await connection.execute(sql, timeout=None)
            await connection.execute("VACUUM ANALYZE", timeout=None)
        finally:
            await connection.close()

    with migrated_database() as url:
        asyncio.run(fill(url))
        yield url


async def measure(place: str, jobs: int) -> dict[str, tuple[float, float]]:
    """The shortest that each page took, in seconds, and the processor time of this process in it."""
    settings = load_settings({"LANGLAUF_STORE": place, "LANGLAUF_WORKERS": "0", "LANGLAUF_RETENTION_EVERY": "86400"})
    app = sample_app(settings=settings)
    shortest: dict[str, tuple[float, float]] = {}
    async with app.lifespan():
        transport = httpx2.ASGITransport(app.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            for _ in range(_ROUNDS):
                for page in pages(jobs):
                    began, worked = time.perf_counter(), time.process_time()
                    response = await client.get(page, headers=_ORG)
                    took = (time.perf_counter() - began, time.process_time() - worked)
                    shortest[page] = min(shortest.get(page, took), took)
                    assert response.status_code == 200, response.text
    return shortest


def main() -> int:
    """Prints a line per page; 1 where one took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    options = parser.parse_args()
    slow = 0
    for name, failed in SCENES.items():
        store = postgres_store if options.postgres else sqlite_store
        began = time.perf_counter()
        with store(failed, options.jobs) as place:
            print(f"{name}: {options.jobs:,} jobs, filled in {time.perf_counter() - began:.0f} s", flush=True)
            for page, (took, worked) in asyncio.run(measure(place, options.jobs)).items():
                slow += took > LIMIT_SECONDS
                print(f"  {took * 1_000:6.0f} ms ({worked * 1_000:.0f} of this process)  {page}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
