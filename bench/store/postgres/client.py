"""One client of a round in a process of its own: `python -m bench.store.postgres.client`.

It reads its task from standard input, opens its connections and reports that; runs on request, answers with its times,
and stays until it is asked to end, so that the cost of its connections can be read meanwhile.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Literal

import msgspec
import uvloop

from bench.store.postgres.ceiling import Ceiling
from bench.store.postgres.counting_store import CountingPostgresStore
from langlauf.bench.rounds import ANALYSIS, JobRound, RoundTimes
from langlauf.hints import Hints

READY = b"ready\n"
#: Jobs that live before the clock starts: they open connections and make plans, which costs once.
_WARMING = 10


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one client does."""

    what: Literal["store", "ceiling"]
    url: str
    name: str
    jobs: int
    concurrency: int = 1
    group: int = 1
    lanes: int = 1


async def run(task: Task) -> None:
    """The life of a client."""
    async with AsyncExitStack() as stack:
        if task.what == "ceiling":
            work = await Ceiling.open(
                stack, task.url, name=task.name, jobs=task.jobs, group=task.group, lanes=task.lanes
            )
            await work.warm_up()
            await _answer(work.run())
        else:
            hints = Hints()
            store = await CountingPostgresStore.open(task.url, hints=hints)
            stack.push_async_callback(store.close)
            await _crowd(task, store, hints, _WARMING, _WARMING).run()
            await _answer(_live(task, store, hints))


async def _live(task: Task, store: CountingPostgresStore, hints: Hints) -> RoundTimes:
    before = store.transactions
    lived = await _crowd(task, store, hints, task.jobs, task.concurrency).run()
    lived.transactions = store.transactions - before
    return lived


def _crowd(task: Task, store: CountingPostgresStore, hints: Hints, jobs: int, concurrency: int) -> JobRound:
    # A claimer is woken by the submissions of its own process alone, so each has an analysis of its own.
    analysis = f"{ANALYSIS}-{task.name}"
    return JobRound(store, hints, jobs=jobs, concurrency=concurrency, analysis=analysis)


async def _answer(work: Coroutine[Any, Any, RoundTimes]) -> None:
    _say(READY)
    await asyncio.to_thread(sys.stdin.buffer.readline)
    _say(msgspec.json.encode(await work) + b"\n")
    await asyncio.to_thread(sys.stdin.buffer.readline)


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(run(msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)))
