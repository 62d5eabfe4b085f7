"""One phase of one peer, run by the Python of that peer's environment: `run.py PEER PHASE JOBS [WAIT_SECONDS]`.

reset    empties what the peer keeps, and nothing else
e2e      the worker is warm; JOBS are enqueued one by one (32 in flight where the peer is asynchronous), from the first
         enqueue until the peer's own store has all of them as ended
drain    JOBS are enqueued without a worker; from the first start until the store has all of them as ended
latency  the worker is warm; 50 jobs a second, from enqueuing to the start of each

A peer is a module beside this one with `open_client`, `reset`, `worker_command`, `enqueue_one` and `stored`. Jobs mark
their start in a file: that gives latencies alone, since some peers start jobs long before their end is stored. Prints
one line of JSON.
"""

import asyncio
import importlib
import inspect
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
MARKS = Path(os.environ["BENCH_MARK"])
RECORD_BYTES = 16
WARMING = 20
AT_ONCE = 32
PER_SECOND = 50


async def call(function, *values):
    """Call a function of a peer, asynchronous or not."""
    found = function(*values)
    return await found if inspect.isawaitable(found) else found


def started_jobs():
    return MARKS.stat().st_size // RECORD_BYTES if MARKS.exists() else 0


def marks():
    from mark import RECORD

    return list(RECORD.iter_unpack(MARKS.read_bytes()))


@contextmanager
def working(peer):
    """Run the peer's worker in a process group of its own."""
    program, *words = peer.worker_command()
    command = [str(Path(sys.executable).parent / program), *words]
    worker = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=sys.stderr, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        try:
            worker.wait(8)
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


async def until(reached, seconds, what):
    """Wait until something is so; say what is not where it takes too long."""
    deadline = time.monotonic() + seconds
    while not await call(reached):
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen within {seconds:g} s")
        await asyncio.sleep(0.01)


async def enqueue_all(peer, jobs):
    left = iter(range(jobs))
    if not inspect.iscoroutinefunction(peer.enqueue_one):

        def loop():
            for _ in left:
                peer.enqueue_one()

        await asyncio.to_thread(loop)
        return

    async def lane():
        for _ in left:
            await peer.enqueue_one()

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


async def wait_stored(peer, jobs, seconds):
    """Wait until the peer's store has so many jobs as ended; return when that was seen."""

    async def enough():
        return await call(peer.stored) >= jobs

    await until(enough, seconds, f"the end of {jobs} jobs")
    return time.time()


async def warm_up(peer):
    for _ in range(WARMING):
        await call(peer.enqueue_one)
    await until(lambda: started_jobs() >= WARMING, 60, "the start of the worker")
    await wait_stored(peer, WARMING, 30)
    await asyncio.sleep(0.5)
    os.truncate(MARKS, 0)


async def end_to_end(peer, jobs, seconds):
    with working(peer):
        await warm_up(peer)
        began = time.time()
        await enqueue_all(peer, jobs)
        await until(lambda: started_jobs() >= jobs, seconds, "the start of all jobs")
        return {"jobs_per_second": jobs / (await wait_stored(peer, WARMING + jobs, seconds) - began)}


async def drain(peer, jobs, seconds):
    began = time.time()
    await enqueue_all(peer, jobs)
    enqueued = time.time() - began
    with working(peer):
        await until(lambda: started_jobs() >= jobs, seconds, "the start of all jobs")
        ended = await wait_stored(peer, jobs, seconds)
    first = min(start for _, start in marks())
    return {"enqueued_per_second": jobs / enqueued, "drained_per_second": jobs / (ended - first)}


async def latency(peer, jobs, seconds):
    with working(peer):
        await warm_up(peer)
        began = time.time()
        for number in range(jobs):
            await asyncio.sleep(max(0, began + number / PER_SECOND - time.time()))
            await call(peer.enqueue_one)
        await until(lambda: started_jobs() >= jobs, seconds, "the start of all jobs")
    waited = sorted((start - enqueued) * 1_000 for enqueued, start in marks())
    return {"p50_ms": statistics.median(waited), "p99_ms": waited[int(0.99 * (len(waited) - 1))]}


PHASES = {"e2e": end_to_end, "drain": drain, "latency": latency}


async def main(name, phase, jobs, seconds):
    peer = importlib.import_module(name)
    await call(peer.open_client)
    await call(peer.reset)
    print(json.dumps(await PHASES[phase](peer, jobs, seconds) if phase in PHASES else {}), flush=True)
    # Some peers keep threads and pools that would only be waited for.
    os._exit(0)


if __name__ == "__main__":
    import uvloop

    words = sys.argv[1:]
    uvloop.run(main(words[0], words[1], int(words[2]), float(words[3]) if len(words) > 3 else 60.0))
