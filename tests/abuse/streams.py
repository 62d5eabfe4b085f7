"""Many idle event streams, and what they cost.

A server of its own has a number of streams that wait. Told are the memory of each, the work of the server while nothing
happens, how soon all hear of an event, whether connections come back when clients leave, and how a stop goes.
"""

import asyncio
import os
import resource
import statistics
import time
from pathlib import Path
from typing import Self

import httpx2

from tests.abuse.ordinary import slowest
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_most, measured, measured_seconds, never
from tests.support.event_stream import Stream
from tests.support.server import ServerProcess, serving

#: What is promised of a stream in which nothing happens.
MOST_KIB = 30.0
STOP_SECONDS = 5.0
_FULL_STREAMS = 500
_LEAST = 100
_STREAMS_PER_JOB = 10
_FULL_IDLE_SECONDS = 20
_WARM = 50
_TICKS = os.sysconf("SC_CLK_TCK")


class Watched:
    """What the system knows of a process."""

    def __init__(self, server: ServerProcess) -> None:
        self._folder = Path("/proc") / str(server.process.pid)

    def memory(self) -> int:
        """Bytes that are resident."""
        return int((self._folder / "statm").read_text().split()[1]) * resource.getpagesize()

    def descriptors(self) -> int:
        """Open files and connections."""
        return len(os.listdir(self._folder / "fd"))  # noqa: PTH208 - names are enough

    async def load(self, seconds: float) -> float:
        """Processor time per second, over some seconds."""
        before = self._processor_time()
        await asyncio.sleep(seconds)
        return (self._processor_time() - before) / seconds

    def _processor_time(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


async def run(plan: Plan) -> list[Figure]:
    """Streams at a server that only serves: nothing else happens in it."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    count, idle_seconds = max(_LEAST, plan.times(_FULL_STREAMS)), max(2.0, _FULL_IDLE_SECONDS * plan.scale)
    with serving(plan.folder / "store.db", settings={"LANGLAUF_WORKERS": "0"}) as server:
        watched = Watched(server)
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, trust_env=False) as http:
            job_ids = [await submit_idle(http) for _ in range(count // _STREAMS_PER_JOB)]
            await leave(await open_idle(server, job_ids, _WARM))
            await _until(watched, 1)
            memory, descriptors = watched.memory(), watched.descriptors()
            without = await watched.load(idle_seconds)
            crowd = await open_idle(server, job_ids, count)
            load = await watched.load(idle_seconds)
            per_stream = (watched.memory() - memory) / count
            await leave(crowd)
            await _until(watched, descriptors)
            left = max(0, watched.descriptors() - descriptors)
            waits = await _wake(http, await open_idle(server, job_ids, count), job_ids)
            crowd = await open_idle(server, [await submit_idle(http)], count)
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        stopped = time.monotonic() - began
        ends = await _clean_ends(crowd)
    errors = sum("error" in line or "Traceback" in line for line in server.log)
    return [
        memory_figure(per_stream),
        measured("load of the idle server with them", load, f"{load:.1%} of a core, {without:.1%} without"),
        measured_seconds("until an event is at a stream of its job, at the median", statistics.median(waits)),
        at_most("its 99th percentile", statistics.quantiles(waits, n=100)[98], slowest(plan), " s"),
        never("descriptors that did not come back", left, count),
        all_of("streams that a stop ends cleanly", ends, count),
        at_most("the stop with all of them open", stopped, STOP_SECONDS, " s"),
        all_of("stops with exit code 0", int(code == 0), 1),
        never("lines of the log that tell of trouble", errors, count),
    ]


def memory_figure(per_stream: float) -> Figure:
    """What an idle stream takes."""
    return at_most("memory of an idle stream", per_stream / 1024, MOST_KIB, " KiB")


async def submit_idle(http: httpx2.AsyncClient) -> str:
    options = {"async_mode": {"requested": True, "allow_duplicate": True}}
    answer = await http.post("/analyze", json={"analysis": "hang", "options": options})
    return str(answer.json()["job"]["job_id"])


async def open_idle(server: ServerProcess, job_ids: list[str], count: int) -> list[Stream]:
    """So many streams, each past the only event there is."""
    streams: list[Stream] = []
    for number in range(count):
        stream = await Stream.open(server.port, job_ids[number % len(job_ids)])
        await stream.next()
        streams.append(stream)
    return streams


async def leave(streams: list[Stream]) -> None:
    for stream in streams:
        stream.cut()


async def _until(watched: Watched, descriptors: int, seconds: float = 3.0) -> None:
    """Waits until so few are open, but not for ever."""
    ends_at = time.monotonic() + seconds
    while watched.descriptors() > descriptors and time.monotonic() < ends_at:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.1)


async def _wake(http: httpx2.AsyncClient, streams: list[Stream], job_ids: list[str]) -> list[float]:
    """Cancels one job after the other; the seconds until each stream of it had heard of it and was ended."""
    waits: list[float] = []
    for place, job_id in enumerate(job_ids):
        began = time.monotonic()

        async def heard(stream: Stream, since: float = began) -> float:
            await stream.rest()
            return time.monotonic() - since

        hearing = [asyncio.create_task(heard(stream)) for stream in streams[place :: len(job_ids)]]
        await http.post(f"/analyze/jobs/{job_id}/cancel")
        waits += await asyncio.gather(*hearing)
    await leave(streams)
    return waits


async def _clean_ends(streams: list[Stream]) -> int:
    ends = 0
    for stream in streams:
        try:
            await stream.rest()
            ends += stream.ended
        except (OSError, EOFError):
            continue
    await leave(streams)
    await asyncio.sleep(0)
    return ends


class IdleStreams:
    """So many streams in which nothing happens, as a load beside others."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        self._server = server
        self._streams: list[Stream] = []
        self.count = count
        self.bytes_each = 0.0

    async def __aenter__(self) -> Self:
        watched = Watched(self._server)
        async with httpx2.AsyncClient(base_url=self._server.url, timeout=30, trust_env=False) as http:
            self._job_id = await submit_idle(http)
        await leave(await open_idle(self._server, [self._job_id], _WARM))
        await _until(watched, 1)
        before = watched.memory()
        self._streams = await open_idle(self._server, [self._job_id], self.count)
        self.bytes_each = (watched.memory() - before) / self.count
        return self

    async def __aexit__(self, *_: object) -> None:
        await leave(self._streams)

    async def lost(self) -> int:
        """Ends their job; those that do not hear of it were cut before."""
        async with httpx2.AsyncClient(base_url=self._server.url, timeout=30, trust_env=False) as http:
            await http.post(f"/analyze/jobs/{self._job_id}/cancel")
        return self.count - await _clean_ends(self._streams)
