"""The same life over HTTP: a server in a process of its own, and clients that submit, then poll until the end."""

import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from langlauf.bench.client import Connection
from langlauf.bench.figures import Http, Watch, median_spread, spread
from langlauf.clock import new_id
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import from_text, seconds_between
from langlauf.settings import BY_ENVIRONMENT

_START = "from langlauf.cli.main import main; main()"
_SERVES = re.compile(r"serves .* on (http://\S+)")
_START_SECONDS = 20.0
_UNLOADED_JOBS = 50
_LONGEST_WAIT = 10


def measure_http(
    folder: Path, *, jobs: int, clients: int, max_running: int, rounds: int, ceiling: float | None, watch: Watch
) -> Http:
    """Jobs per second, and how long submitting and starting takes, with so many clients at once; medians of rounds."""

    async def measure() -> tuple[list[_Load], list[float]]:
        async with serving(folder / "http.db", "--max-running", str(max_running)) as url:
            await _Load(url, max(clients, jobs // 10)).run(clients)  # warms up
            loads = [_Load(url, jobs) for _ in range(rounds)]
            for number, load in enumerate(loads):
                watch(number, rounds)
                await load.run(clients)
            return loads, await _unloaded(url)

    loads, alone = uvloop.run(measure())
    watch(rounds, rounds)
    jobs_per_second = statistics.median(jobs / load.seconds for load in loads)
    return Http(
        jobs=jobs,
        clients=clients,
        jobs_per_second=round(jobs_per_second, 1),
        ratio_to_ceiling=None if ceiling is None else round(jobs_per_second / ceiling, 3),
        submit_ms=median_spread([spread(load.submits) for load in loads]),
        submit_to_start_ms=median_spread([spread(load.starts) for load in loads]),
        unloaded_p50_ms=spread(alone).p50,
    )


@asynccontextmanager
async def serving(store: Path, *flags: str) -> AsyncIterator[str]:
    """A server with the sample application on a store; its log goes to a file beside it."""
    log = store.with_suffix(".log")
    # What is set here is measured, not what happens to be set around it.
    environment = {name: value for name, value in os.environ.items() if name not in BY_ENVIRONMENT}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _START, "serve", "langlauf.bench.sample:app"),
            *("--port", "0", "--store", str(store), *flags),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        yield await _address(process, log)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    """Where the server listens, as soon as it says so."""
    deadline = time.monotonic() + _START_SECONDS
    while process.returncode is None and time.monotonic() < deadline:
        if found := _SERVES.search(_said(log)):
            return found[1]
        await asyncio.sleep(0.05)
    raise LanglaufError(f"the server did not start: {_said(log)[-500:]}")


def _said(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")


class _Load:
    """So many jobs, each submitted and followed to its end."""

    def __init__(self, url: str, jobs: int) -> None:
        self.seconds = 0.0
        self.submits: list[float] = []
        self.starts: list[float] = []
        self._url = url
        self._left = jobs

    async def run(self, clients: int) -> None:
        """Returns when all jobs have completed."""
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())
        self.seconds = time.perf_counter() - began

    async def _client(self) -> None:
        connection = await Connection.open(self._url)
        try:
            while self._left > 0:
                self._left -= 1
                seconds, job = await _run_one(connection)
                self.submits.append(seconds)
                self.starts.append(seconds_between(from_text(job["queued_at"]), from_text(job["started_at"])))
        finally:
            await connection.close()


async def _run_one(connection: Connection) -> tuple[float, dict[str, Any]]:
    """How long submitting took, and the job at its end."""
    body = msgspec.json.encode(
        {"query": f"Bahnhofstrasse 1, {new_id()}", "options": {"async_mode": {"requested": True}}}
    )
    began = time.perf_counter()
    job = (await connection.post("/analyze", body))["job"]
    seconds = time.perf_counter() - began
    while job["status"] != "completed":
        if job["status"] in ("failed", "canceled"):
            raise LanglaufError(f"a job of the benchmark ended as {job['status']}")
        job = (await connection.get(f"/analyze/jobs/{job['job_id']}?wait={_LONGEST_WAIT}"))["job"]
    return seconds, job


async def _unloaded(url: str) -> list[float]:
    """From sending a job to seeing its end, one after the other."""
    connection = await Connection.open(url)
    taken = []
    try:
        for _ in range(_UNLOADED_JOBS):
            began = time.perf_counter()
            await _run_one(connection)
            taken.append(time.perf_counter() - began)
    finally:
        await connection.close()
    return taken
