"""One run of `langlauf bench`: stores in a folder or in databases of a server, and jobs over HTTP."""

import asyncio
import os
import platform
import re
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import apsw
import msgspec
import uvloop

from langlauf.analysis.job import Job
from langlauf.app import Langlauf
from langlauf.bench.rounds import (
    ORG,
    WRITES_PER_JOB,
    BenchReport,
    HttpResults,
    JobRound,
    OnProgress,
    RoundTimes,
    StoreResults,
    median_percentiles,
    percentiles,
)
from langlauf.bootstrap import open_store
from langlauf.clock import SystemClock, new_id
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import from_text, seconds_between, to_text
from langlauf.hints import Hints
from langlauf.settings import BY_ENVIRONMENT, load_settings
from langlauf.store.sqlite.connection import open_connection

# -- jobs over HTTP ----------------------------------------------------------------------------------------------------
# The server runs the application of this module, whose analysis does nothing: what remains is the cost of Langlauf.

T = TypeVar("T")
R = TypeVar("R")
_START = "from langlauf.cli.main import main; main()"
_SERVES = re.compile(r"serves .* on (http://\S+)")
_START_SECONDS, _STOP_SECONDS = 20.0, 30.0
_LONGEST_WAIT = 10
_decode = msgspec.json.decode


class BenchConnection:
    """A keep-alive connection of a minimal, cheap HTTP/1.1 client; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, org: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nX-Org-Id: {org}\r\nAccept: application/json\r\n"

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to the server of a URL, for the org of the benchmark."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer, parts.netloc, ORG)

    async def get(self, target: str) -> Any:
        """Return the decoded response to a GET; raise unless it is a success."""
        return await self._send(f"GET {target} {self._head}\r\n".encode())

    async def post(self, target: str, body: bytes) -> Any:
        """Return the decoded response to a POST of JSON."""
        head = f"POST {target} {self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._send(head.encode() + body)

    async def _send(self, request: bytes) -> Any:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"\r\ncontent-length:")
        body = await self._reader.readexactly(int(rest.partition(b"\r\n")[0])) if found else b""
        if head[9:10] != b"2":
            raise LanglaufError(f"the server answered {head[9:12].decode()}: {body[:500].decode(errors='replace')}")
        return _decode(body)

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


app = Langlauf()


@app.analysis
async def bench(job: Job, query: str) -> dict[str, Any]:
    """Store one partial result, then return."""
    await job.partial({"query": query, "found": False}, progress=50)
    return {"query": query, "found": True, "score": 0.93}


async def measure_http(
    store: str, log: Path, *, jobs: int, clients: int, max_running: int, rounds: int, watch: OnProgress
) -> HttpResults:
    """Return medians over rounds of jobs, and of one poll of each job after its end."""
    rounds_done, polls = [], []
    async with serving(store, log, "--max-running", str(max_running)) as url:
        await _run_concurrently(url, clients, range(max(clients, jobs // 10)), _run_one)  # warms up
        for number in range(rounds):
            watch(number, rounds)
            rounds_done.append(await _run_concurrently(url, clients, range(jobs), _run_one))
            polls.append(await _run_concurrently(url, clients, [job["job_id"] for _, job in rounds_done[-1][1]], _poll))
    watch(rounds, rounds)
    starts = [[_start_delay(job) for _, job in done] for _, done in rounds_done]
    return HttpResults(
        jobs=jobs,
        clients=clients,
        jobs_per_second=round(statistics.median(len(done) / seconds for seconds, done in rounds_done), 1),
        submit_ms=median_percentiles([percentiles([taken for taken, _ in done]) for _, done in rounds_done]),
        submit_to_start_ms=median_percentiles([percentiles(one) for one in starts]),
        polls_per_second=round(statistics.median(len(taken) / seconds for seconds, taken in polls), 1),
        poll_ms=median_percentiles([percentiles(taken) for _, taken in polls]),
    )


@asynccontextmanager
async def serving(store: str, log: Path, *flags: str) -> AsyncIterator[str]:
    """Serve the benchmark's application on a store, and yield its URL; its log goes to the file."""
    # Settings of the environment must not change the measurement.
    environment = {name: value for name, value in os.environ.items() if name not in BY_ENVIRONMENT}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _START, "serve", "langlauf.bench.suite:app"),
            *("--port", "0", "--store", store, *flags),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # one process group, to be killed together
        )
    try:
        yield await _server_url(process, log)
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _server_url(process: asyncio.subprocess.Process, log: Path) -> str:
    """Return the URL of the server, as soon as its log has it."""
    deadline = time.monotonic() + _START_SECONDS
    while process.returncode is None and time.monotonic() < deadline:
        if found := _SERVES.search(_read_log(log)):
            return found[1]
        await asyncio.sleep(0.05)
    raise LanglaufError(f"the server did not start: {_read_log(log)[-500:]}")


def _read_log(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")


async def _run_concurrently(
    url: str, clients: int, items: Iterable[T], work: Callable[[BenchConnection, T], Awaitable[R]]
) -> tuple[float, list[R]]:
    """Process all items on a number of connections; return the total time and the results."""
    left, found = iter(items), list[R]()

    async def client() -> None:
        connection = await BenchConnection.open(url)
        try:
            for item in left:
                found.append(await work(connection, item))
        finally:
            await connection.close()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return time.perf_counter() - began, found


async def _run_one(connection: BenchConnection, _: int) -> tuple[float, dict[str, Any]]:
    """Return how long submitting took, and the job at its end."""
    query = f"Bahnhofstrasse 1, {new_id()}"
    body = msgspec.json.encode({"query": query, "options": {"async_mode": {"requested": True}}})
    began = time.perf_counter()
    job = (await connection.post("/analyze", body))["job"]
    seconds = time.perf_counter() - began
    while job["status"] != "completed":
        if job["status"] in ("failed", "canceled"):
            raise LanglaufError(f"a job of the benchmark ended as {job['status']}")
        job = (await connection.get(f"/analyze/jobs/{job['job_id']}?wait={_LONGEST_WAIT}"))["job"]
    return seconds, job


def _start_delay(job: dict[str, Any]) -> float:
    """Return the seconds until a job started, by its own times."""
    return seconds_between(from_text(job["queued_at"]), from_text(job["started_at"]))


async def _poll(connection: BenchConnection, job_id: str) -> float:
    began = time.perf_counter()
    await connection.get(f"/analyze/jobs/{job_id}")
    return time.perf_counter() - began


# -- run ---------------------------------------------------------------------------------------------------------------

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
