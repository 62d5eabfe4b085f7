"""Jobs over HTTP: a server in processes of its own, and clients that submit, then poll until the end."""

import asyncio
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from langlauf.bench.client import Connection
from langlauf.bench.figures import HttpFigures, Watch, median_spread, spread
from langlauf.clock import new_id
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import from_text, seconds_between
from langlauf.settings import BY_ENVIRONMENT

T = TypeVar("T")
R = TypeVar("R")
_START = "from langlauf.cli.main import main; main()"
_SERVES = re.compile(r"serves .* on (http://\S+)")
_START_SECONDS, _STOP_SECONDS = 20.0, 30.0
_LONGEST_WAIT = 10


async def measure_http(
    store: str, log: Path, *, jobs: int, clients: int, max_running: int, rounds: int, watch: Watch
) -> HttpFigures:
    """Return medians of rounds of so many jobs, and of one poll of each after its end."""
    lives, polls = [], []
    async with serving(store, log, "--max-running", str(max_running)) as url:
        await _side_by_side(url, clients, range(max(clients, jobs // 10)), _run_one)  # warms up
        for number in range(rounds):
            watch(number, rounds)
            lives.append(await _side_by_side(url, clients, range(jobs), _run_one))
            polls.append(await _side_by_side(url, clients, [job["job_id"] for _, job in lives[-1][1]], _poll))
    watch(rounds, rounds)
    starts = [[_waited(job) for _, job in done] for _, done in lives]
    return HttpFigures(
        jobs=jobs,
        clients=clients,
        jobs_per_second=round(statistics.median(len(done) / seconds for seconds, done in lives), 1),
        submit_ms=median_spread([spread([taken for taken, _ in done]) for _, done in lives]),
        submit_to_start_ms=median_spread([spread(one) for one in starts]),
        polls_per_second=round(statistics.median(len(taken) / seconds for seconds, taken in polls), 1),
        poll_ms=median_spread([spread(taken) for _, taken in polls]),
    )


@asynccontextmanager
async def serving(store: str, log: Path, *flags: str) -> AsyncIterator[str]:
    """Serve the sample application on a store, and yield its URL; what it logs goes to the file."""
    # What is set here is measured, not what happens to be set around it.
    environment = {name: value for name, value in os.environ.items() if name not in BY_ENVIRONMENT}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _START, "serve", "langlauf.bench.sample:app"),
            *("--port", "0", "--store", store, *flags),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # a group of its own, which ends together
        )
    try:
        yield await _address(process, log)
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


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    """Return where the server listens, as soon as it says so."""
    deadline = time.monotonic() + _START_SECONDS
    while process.returncode is None and time.monotonic() < deadline:
        if found := _SERVES.search(_said(log)):
            return found[1]
        await asyncio.sleep(0.05)
    raise LanglaufError(f"the server did not start: {_said(log)[-500:]}")


def _said(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")


async def _side_by_side(
    url: str, clients: int, items: Iterable[T], work: Callable[[Connection, T], Awaitable[R]]
) -> tuple[float, list[R]]:
    """Do the work of all items on so many connections; return how long that took in all, and what each gave."""
    left, found = iter(items), list[R]()

    async def client() -> None:
        connection = await Connection.open(url)
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


async def _run_one(connection: Connection, _: int) -> tuple[float, dict[str, Any]]:
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


def _waited(job: dict[str, Any]) -> float:
    """Return the seconds until a job started, by its own times."""
    return seconds_between(from_text(job["queued_at"]), from_text(job["started_at"]))


async def _poll(connection: Connection, job_id: str) -> float:
    began = time.perf_counter()
    await connection.get(f"/analyze/jobs/{job_id}")
    return time.perf_counter() - began
