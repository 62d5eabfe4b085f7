"""Clients of a round, side by side: all are ready before the first begins, and none goes before all have ended."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import chain

import msgspec

from bench.store.figures import JobCost
from bench.store.postgres.client import READY, Task
from bench.store.postgres.usage import cost_between, usage
from langlauf.bench.postgres import connected
from langlauf.bench.rounds import RoundTimes
from langlauf.domain.errors import LanglaufError

#: A line of an answer holds what each job took.
_LONGEST_LINE = 64 * 1024 * 1024
_GO = b"go\n"


async def run_side_by_side(tasks: Sequence[Task]) -> tuple[RoundTimes, JobCost]:
    """Return what all of them did together, and what it cost."""
    async with AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(connected(tasks[0].url))
        clients = [await _started(stack, task) for task in tasks]
        for client in clients:
            if await _line(client) != READY:
                raise LanglaufError("a client of the benchmark did not start")
        before = await usage(watcher)
        for client in clients:
            _tell(client)
        found = [msgspec.json.decode(await _line(client), type=RoundTimes) for client in clients]
        after = await usage(watcher)
        for client in clients:
            _tell(client)
        for client in clients:
            await client.wait()
    lived = _together(found)
    cost = cost_between(
        before, after, jobs=lived.jobs, seconds=lived.seconds, client_seconds=sum(one.cpu_seconds for one in found)
    )
    return lived, cost


def _together(found: list[RoundTimes]) -> RoundTimes:
    """Return the times of one round: all began at once, and it ended with the last of them."""
    return RoundTimes(
        jobs=sum(one.jobs for one in found),
        seconds=max(one.seconds for one in found),
        transactions=sum(one.transactions for one in found),
        submits=list(chain.from_iterable(one.submits for one in found)),
        starts=list(chain.from_iterable(one.starts for one in found)),
        cpu_seconds=sum(one.cpu_seconds for one in found),
    )


async def _started(stack: AsyncExitStack, task: Task) -> Process:
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.store.postgres.client"), stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE
    )
    stack.push_async_callback(_gone, client)
    _tell(client, msgspec.json.encode(task) + b"\n")
    return client


async def _gone(client: Process) -> None:
    if client.returncode is None:
        client.kill()
        await client.wait()


def _tell(client: Process, line: bytes = _GO) -> None:
    if client.stdin is not None:
        client.stdin.write(line)


async def _line(client: Process) -> bytes:
    line = b"" if client.stdout is None else await client.stdout.readline()
    if not line:
        raise LanglaufError("a client of the benchmark ended too early; what it said is above")
    return line
