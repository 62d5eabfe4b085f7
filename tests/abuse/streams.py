"""`python -m tests.abuse.streams`: many idle event streams, and what they cost.

A server of its own has a number of streams that wait. Told are the memory of each, the work of the server while nothing
happens, how soon all hear of an event, whether connections come back when clients leave, and how a stop goes. Exit 1
where a promise was broken.
"""

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click
import httpx2
import msgspec

from tests.support.server import ServerProcess, serving
from tests.support.streaming import Stream

#: What is promised of a stream in which nothing happens.
MOST_BYTES = 30 * 1024
#: From the request that causes an event to its arrival at every stream of the job.
WAKE_SECONDS = 1.0
STOP_SECONDS = 5.0
_WARM = 50
_TICKS = os.sysconf("SC_CLK_TCK")


class Figures(msgspec.Struct, kw_only=True):
    """What was measured with so many streams."""

    streams: int
    bytes_per_stream: float
    #: seconds of processor time per second of idling, with and without the streams
    idle_load: float
    idle_load_without: float
    wake_median: float
    wake_p99: float
    #: descriptors with all streams, and once the clients have left, beyond those before
    descriptors: int
    descriptors_left: int
    clean_ends: int
    stop_seconds: float
    exit_code: int
    log_errors: int

    def broken(self) -> list[str]:
        """The promises that were not kept."""
        kept = {
            f"memory per stream under {MOST_BYTES:,} bytes": self.bytes_per_stream < MOST_BYTES,
            f"99 of 100 hear of an event within {WAKE_SECONDS:g} s": self.wake_p99 < WAKE_SECONDS,
            "descriptors come back": self.descriptors_left <= 0,
            "every stream has a clean end at a stop": self.clean_ends == self.streams,
            f"the stop takes less than {STOP_SECONDS:g} s": self.stop_seconds < STOP_SECONDS,
            "exit code 0": self.exit_code == 0,
            "no error in the log": self.log_errors == 0,
        }
        return [promise for promise, so in kept.items() if not so]


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


async def measure(folder: Path, *, streams: int, streams_per_job: int, idle_seconds: float) -> Figures:
    """Runs it once, with a server that only serves: nothing else happens in it."""
    with serving(folder / "store.db", settings={"LANGLAUF_WORKERS": "0"}) as server:
        watched = Watched(server)
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, trust_env=False) as http:
            job_ids = [await _submit(http) for _ in range(max(1, streams // streams_per_job))]
            await _leave(await _open(server, job_ids, _WARM))
            await _until(watched, 1)
            memory, descriptors = watched.memory(), watched.descriptors()
            without = await watched.load(idle_seconds)
            crowd = await _open(server, job_ids, streams)
            load = await watched.load(idle_seconds)
            per_stream = (watched.memory() - memory) / streams
            most = watched.descriptors()
            await _leave(crowd)
            await _until(watched, descriptors)
            left = watched.descriptors() - descriptors
            waits = await _wake(http, await _open(server, job_ids, streams), job_ids)
            crowd = await _open(server, [await _submit(http)], streams)
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        stopped = time.monotonic() - began
        return Figures(
            streams=streams,
            bytes_per_stream=per_stream,
            idle_load=load,
            idle_load_without=without,
            wake_median=statistics.median(waits),
            wake_p99=statistics.quantiles(waits, n=100)[98],
            descriptors=most,
            descriptors_left=left,
            clean_ends=await _clean_ends(crowd),
            stop_seconds=stopped,
            exit_code=code,
            log_errors=sum("error" in line or "Traceback" in line for line in server.log),
        )


async def _submit(http: httpx2.AsyncClient) -> str:
    options = {"async_mode": {"requested": True, "allow_duplicate": True}}
    answer = await http.post("/analyze", json={"analysis": "hang", "options": options})
    return str(answer.json()["job"]["job_id"])


async def _open(server: ServerProcess, job_ids: list[str], count: int) -> list[Stream]:
    """So many streams, each past the only event there is."""
    streams: list[Stream] = []
    for number in range(count):
        stream = await Stream.open(server.port, job_ids[number % len(job_ids)])
        await stream.next()
        streams.append(stream)
    return streams


async def _leave(streams: list[Stream]) -> None:
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
    await _leave(streams)
    return waits


async def _clean_ends(streams: list[Stream]) -> int:
    ends = 0
    for stream in streams:
        try:
            await stream.rest()
            ends += stream.ended
        except (OSError, EOFError):
            continue
    await _leave(streams)
    await asyncio.sleep(0)
    return ends


@click.command()
@click.option("--streams", default=500, show_default=True, help="How many.")
@click.option("--streams-per-job", default=10, show_default=True, help="How many follow the same job.")
@click.option("--idle-seconds", default=20.0, show_default=True, help="How long the idle server is watched.")
def main(streams: int, streams_per_job: int, idle_seconds: float) -> None:
    """Open many event streams, and tell what they cost."""
    with tempfile.TemporaryDirectory(prefix="langlauf-streams-") as folder:
        figures = asyncio.run(
            measure(Path(folder), streams=streams, streams_per_job=streams_per_job, idle_seconds=idle_seconds)
        )
    for name, value in msgspec.to_builtins(figures).items():
        click.echo(f"{name:20} {value:,.4g}" if isinstance(value, float) else f"{name:20} {value:,}")
    for promise in figures.broken():
        click.echo(f"broken: {promise}", err=True)
    sys.exit(1 if figures.broken() else 0)


if __name__ == "__main__":
    main()
