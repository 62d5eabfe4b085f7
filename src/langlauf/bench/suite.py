"""One run of `langlauf bench`: stores in a folder, or in databases of a server, that are removed afterwards."""

import os
import platform
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import msgspec
import uvloop

from langlauf.bench.http import measure_http
from langlauf.bench.jobs import WRITES_PER_JOB, JobRound, RoundTimes
from langlauf.bench.report import BenchReport, OnProgress, StoreResults, median_percentiles, percentiles
from langlauf.bootstrap import open_store
from langlauf.clock import SystemClock
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import to_text
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.sqlite.connection import open_connection

NAMES = ("store", "http")
_COMMITS = 200


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure, and how much of it."""

    jobs: int
    concurrency: int
    clients: int
    rounds: int
    names: tuple[str, ...] = NAMES


def run(plan: BenchPlan, server: str | None, folder: Path, watcher: Callable[[str], OnProgress]) -> BenchReport:
    """Measure SQLite in a folder, or PostgreSQL on a server; `watcher` opens a progress bar of that name."""
    with TemporaryDirectory(prefix="langlauf-bench-", dir=folder) as made:
        try:
            return uvloop.run(_run(plan, server, Path(made), watcher))
        except ModuleNotFoundError as error:
            raise LanglaufError(f"PostgreSQL needs the package {error.name}: install langlauf[postgres]") from error


async def _run(plan: BenchPlan, server: str | None, folder: Path, watcher: Callable[[str], OnProgress]) -> BenchReport:
    database, store, http = await _database(server), None, None
    if "store" in plan.names:
        store = await _measure_store(plan, server, folder, watcher("store"))
    if "http" in plan.names:
        async with _new_store(server, folder, "http") as where:
            http = await measure_http(
                *(where, folder / "server.log"),
                jobs=plan.jobs,
                clients=plan.clients,
                max_running=plan.concurrency,
                rounds=plan.rounds,
                watch=watcher("HTTP"),
            )
    return BenchReport(
        measured_at=to_text(SystemClock().now()),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        database=database,
        store=store,
        http=http,
    )


async def _measure_store(plan: BenchPlan, server: str | None, folder: Path, watch: OnProgress) -> StoreResults:
    """Measure rounds, each in a new store and followed by single commits in the same place; the first is a warm-up."""
    commits, rounds_done = [], []
    for number in range(plan.rounds + 1):
        watch(number, plan.rounds + 1)
        async with _new_store(server, folder, str(number)) as where:
            rounds_done.append(
                await _run_round(where, plan.jobs if number else max(1, plan.jobs // 4), plan.concurrency)
            )
            commits.append(await _commits_per_second(server, where))
    watch(plan.rounds + 1, plan.rounds + 1)
    jobs_per_second = statistics.median(one.jobs_per_second for one in rounds_done[1:])
    commits_per_second = statistics.median(commits[1:])
    return StoreResults(
        jobs=plan.jobs,
        concurrency=plan.concurrency,
        commits_per_second=round(commits_per_second, 1),
        jobs_per_second=round(jobs_per_second, 1),
        writes_to_commits=round(WRITES_PER_JOB * jobs_per_second / commits_per_second, 2),
        submit_ms=median_percentiles([percentiles(one.submits) for one in rounds_done[1:]]),
        submit_to_start_ms=median_percentiles([percentiles(one.starts) for one in rounds_done[1:]]),
    )


async def _run_round(where: str, jobs: int, concurrency: int) -> RoundTimes:
    hints = Hints()
    store = await open_store(load_settings({"LANGLAUF_STORE": where}), hints)
    try:
        return await JobRound(store, hints, jobs=jobs, concurrency=concurrency).run()
    finally:
        await store.close()


async def _database(server: str | None) -> str:
    """Return the database and its version."""
    if server is None:
        return f"SQLite {apsw.sqlite_lib_version()}"
    from langlauf.bench.postgres import version

    return f"PostgreSQL {await version(server)}"


@asynccontextmanager
async def _new_store(server: str | None, folder: Path, name: str) -> AsyncIterator[str]:
    """Yield the location of a new store."""
    if server is None:
        yield str(folder / f"{name}.db")
        return
    from langlauf.bench.postgres import own_database

    async with own_database(server) as url:
        yield url


async def _commits_per_second(server: str | None, where: str) -> float:
    """Commit one small row after the other, on one connection."""
    if server is None:
        file = open_connection(f"{where}.commits")
        try:
            file.execute("CREATE TABLE small (number INTEGER)")
            began = time.perf_counter()
            for number in range(_COMMITS):
                file.execute("INSERT INTO small VALUES (?)", (number,))
            return _COMMITS / (time.perf_counter() - began)
        finally:
            file.close()
    from langlauf.bench.postgres import connected

    async with connected(where) as connection:
        await connection.execute("CREATE TABLE public.small (number integer)")
        began = time.perf_counter()
        for number in range(_COMMITS):
            await connection.execute("INSERT INTO public.small VALUES ($1)", number)
        return _COMMITS / (time.perf_counter() - began)
