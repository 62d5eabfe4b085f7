"""`python -m tests.faults.sweeper STORE`: sweeps a store without a pause until its standard input is closed."""

import asyncio
import sys

from langlauf.clock import SystemClock
from langlauf.domain.attempt import Backoff
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore


async def _sweep(path: str) -> None:
    store = await SqliteStore.open(path, clock=SystemClock(), hints=Hints())
    swept = 0
    print("sweeping", flush=True)
    closed = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not closed.done():
        swept += len(await store.sweep(grace_seconds=0.0, backoff=Backoff()))
    await store.close()
    print(swept, flush=True)


if __name__ == "__main__":
    asyncio.run(_sweep(sys.argv[1]))
