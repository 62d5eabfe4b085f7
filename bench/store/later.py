"""What waiting for a time costs: `python -m bench.store.later claim|idle|start`; `--help` has the sizes.

- `claim`: a claim beside many jobs of the same lane that wait for their time, as a ratio to one without them.
- `idle`: processor time of a server whose store has many schedules, none of them due, beside a server without any.
- `start`: how long after its time a job starts while slots are free, by a later start and by a schedule.

Subjects are measured in turns, or at the same time; each prints one line of JSON per store.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import cpu_seconds, free_port, running, wait_until_answers
from langlauf import Job, Langlauf
from langlauf.bench.rounds import ANALYSIS, ORG, RESULT, claim_request, new_job
from langlauf.client import Client, SubmitOptions
from langlauf.clock import SystemClock, new_id
from langlauf.domain.instant import after
from langlauf.domain.outcome import Completed
from langlauf.domain.schedule import Schedule
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database

_DAY = 86_400.0
_YEAR = 365 * _DAY
_AT_ONCE = 500
_WARM_UP = 20

app = Langlauf()


@app.analysis(duplicates=True)
async def bench(_: Job, number: int = 0) -> int:
    """Do nothing."""
    return number


@contextmanager
def empty_store(kind: str) -> Iterator[str]:
    """Yield the URL of an empty store."""
    if kind == "postgres":
        with migrated_database() as url:
            yield url
    else:
        with tempfile.TemporaryDirectory(prefix="langlauf-later-") as folder:
            yield str(Path(folder) / "store.db")


async def _opened(place: str) -> Store:
    if place.startswith("postgres"):
        return await PostgresStore.open(place, hints=Hints())
    return await SqliteStore.open(place, hints=Hints())


# A claim ---------------------------------------------------------------------------------------------------------

#: What differs from copy to copy of the real job, in each database; `number` counts up.
_SQLITE_COPY = {
    "job": "NULL",
    "job_id": "printf('%08x-0000-7000-8000-%012x', number, number)",
    "ticket": "ticket - number",
    "run_at": "run_at + number",
    "payload_hash": "randomblob(32)",
}
_POSTGRES_COPY = {
    "job": "gen_random_uuid()",
    "ticket": "ticket - number",
    "run_at": "run_at + number",
    "payload_hash": "sha256(number::text::bytea)",
}


async def _fill(place: str, jobs: int) -> None:
    """Add jobs that wait for a time of next year: one is submitted, and the others are copies of its row."""
    store = await _opened(place)
    new = new_job(store.clock)
    later = msgspec.structs.replace(new.job, run_at=after(store.clock.now(), _YEAR))
    await store.submit(msgspec.structs.replace(new, job=later))
    await store.close()
    await asyncio.to_thread(_copy_sqlite if not place.startswith("postgres") else _copy_postgres, place, jobs - 1)


def _copy_sqlite(place: str, copies: int) -> None:
    connection = open_connection(place)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(job_rows)")]
    values = ", ".join(_SQLITE_COPY.get(column, column) for column in columns)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        "WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?) "
        f"INSERT INTO job_rows ({', '.join(columns)}) "
        f"SELECT {values} FROM numbers CROSS JOIN (SELECT * FROM job_rows LIMIT 1)",
        (copies,),
    )
    for table in ("lane_rows", "analyses"):
        connection.execute(f"UPDATE {table} SET scheduled = scheduled + ?", (copies,))
    connection.close()


def _copy_postgres(place: str, copies: int) -> None:
    rows = fetch(
        place,
        "SELECT attname FROM pg_attribute WHERE attrelid = 'langlauf.job_rows'::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
    )
    columns = [str(row["attname"]) for row in rows]
    values = ", ".join(_POSTGRES_COPY.get(column, f"one.{column}") for column in columns)
    execute(
        place,
        f"INSERT INTO langlauf.job_rows ({', '.join(columns)}) SELECT {values} "
        f"FROM (SELECT * FROM langlauf.job_rows LIMIT 1) AS one CROSS JOIN generate_series(1, {copies}) AS number",
        f"UPDATE langlauf.lanes SET scheduled = scheduled + {copies}",
        f"UPDATE langlauf.waiting_counts SET scheduled = scheduled + {copies} WHERE scheduled > 0",
        "VACUUM ANALYZE langlauf.job_rows",
    )


async def _claim_seconds(store: Store) -> float:
    """Submit a job, claim it, and end it; return the time of the claim."""
    await store.submit(new_job(store.clock))
    began = time.perf_counter()
    [claim] = await store.claim(claim_request(1))
    seconds = time.perf_counter() - began
    await store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))
    return seconds


async def _compare_claims(places: list[str], rounds: int) -> list[list[float]]:
    taken: list[list[float]] = [[] for _ in places]
    async with AsyncExitStack() as stack:
        stores = []
        for place in places:
            stores.append(await _opened(place))
            stack.push_async_callback(stores[-1].close)
        for number in range(rounds + _WARM_UP):
            for which, store in enumerate(stores):
                seconds = await _claim_seconds(store)
                if number >= _WARM_UP:
                    taken[which].append(seconds)
    return taken


def measure_claim(kind: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return medians and minima of claims with and without jobs that wait for their time."""
    with empty_store(kind) as without, empty_store(kind) as beside:
        began = time.perf_counter()
        asyncio.run(_fill(beside, given.jobs))
        filled = time.perf_counter() - began
        alone, waiting = asyncio.run(_compare_claims([without, beside], given.rounds))
    return {
        "waiting": given.jobs,
        "fill_seconds": round(filled),
        "median_ms": [round(1_000 * statistics.median(one), 3) for one in (alone, waiting)],
        "minimum_ms": [round(1_000 * min(one), 3) for one in (alone, waiting)],
        "ratio_of_medians": round(statistics.median(waiting) / statistics.median(alone), 2),
        "ratio_of_minima": round(min(waiting) / min(alone), 2),
    }


# A server --------------------------------------------------------------------------------------------------------


@contextmanager
def _server(place: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Run a server over a store; yield its URL and the id of its process."""
    port, log = free_port(), folder / f"{new_id()}.log"
    command = [sys.executable, "-m", "langlauf", "serve", "bench.store.later:app", "--port", str(port)]
    environment = {"LANGLAUF_STORE": place, "LANGLAUF_RATE_LIMIT_SUBMIT": "100000/1m"}
    with running(command, folder=Path.cwd(), environment=environment, log=log) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_answers(f"{url}/ready", process, log, seconds=60, success=True)
        yield url, process.pid


async def _plan(place: str, schedules: int) -> None:
    """Add schedules of ten orgs, whose next runs are spread over the day after tomorrow."""
    store, now = await _opened(place), SystemClock().now()
    plans = [
        Schedule(
            org_id=f"{ORG}-{number % 10}",
            name=f"plan-{number}",
            analysis=ANALYSIS,
            every_seconds=_DAY,
            created_at=now,
            updated_at=now,
            next_run_at=after(now, _DAY * (1 + number / schedules)),
        )
        for number in range(schedules)
    ]
    for first in range(0, schedules, _AT_ONCE):
        await asyncio.gather(*map(store.schedules.add, plans[first : first + _AT_ONCE]))
    await store.close()


def measure_idle(kind: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the processor time of idle servers as a share of one core, with many schedules and without."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="langlauf-later-")))
        places = [stack.enter_context(empty_store(kind)) for _ in range(2)]
        asyncio.run(_plan(places[1], given.schedules))
        pids = [stack.enter_context(_server(place, folder))[1] for place in places]
        time.sleep(10)  # until what a start does is done
        shares: list[list[float]] = [[], []]
        for _ in range(given.windows):
            before, began = [cpu_seconds([pid]) for pid in pids], time.monotonic()
            time.sleep(given.seconds)
            seconds = time.monotonic() - began
            for which, pid in enumerate(pids):
                shares[which].append(100 * (cpu_seconds([pid]) - before[which]) / seconds)
    without, planned = (statistics.median(one) for one in shares)
    return {
        "schedules": given.schedules,
        "percent_of_a_core_without": round(without, 2),
        "percent_of_a_core": round(planned, 2),
        "difference": round(planned - without, 2),
        "windows": [[round(one, 2) for one in found] for found in shares],
    }


def measure_start(kind: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return how long after its time a job starts: after its run_at, and after the planned time of its schedule."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="langlauf-later-")))
        url, _ = stack.enter_context(_server(stack.enter_context(empty_store(kind)), folder))
        client = stack.enter_context(Client(url))
        later = [
            client.submit(ANALYSIS, number=n, options=SubmitOptions(delay_seconds=3 + 0.31 * n))
            for n in range(given.jobs_started)
        ]
        ended = [job.wait(timeout=120) for job in later]
        late = [(one.started_at - one.run_at).total_seconds() for one in ended if one.started_at and one.run_at]
        for number in range(5):
            client.add_schedule(f"plan-{number}", ANALYSIS, {"number": number}, every_seconds=2.0, overlap="queue")
            time.sleep(0.37)
        time.sleep(2 * given.jobs_started / 5)
        for number in range(5):
            client.change_schedule(f"plan-{number}", paused=True)
        time.sleep(1)
        runs = [one for one in client.jobs(limit=200) if one.schedule and one.started_at and one.planned_at]
        fired = [(one.started_at - one.planned_at).total_seconds() for one in runs if one.started_at and one.planned_at]
    return {"run_at": _spread(late), "schedule": _spread(fired)}


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"count": len(seconds), "p50": round(statistics.median(seconds), 3), "worst": round(max(seconds), 3)}


def main() -> None:
    """Print one line per store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["claim", "idle", "start"])
    parser.add_argument("--stores", default="sqlite,postgres")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--jobs-started", type=int, default=50)
    given = parser.parse_args()
    measure = {"claim": measure_claim, "idle": measure_idle, "start": measure_start}[given.what]
    for kind in given.stores.split(","):
        print(json.dumps({"what": given.what, "store": kind, **measure(kind, given)}), flush=True)


if __name__ == "__main__":
    main()
