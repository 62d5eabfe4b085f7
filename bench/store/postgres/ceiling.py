"""The raw ceiling of PostgreSQL: the rows of a job's life, written by bare statements over arrays.

Several connections at once, as the store has, each with groups, an org and a lane of its own, so that none waits for
another. A job costs as many commits as it does in the store: one statement per stage and group. All values are made
before the clock starts; the driver alone turns them into bytes while it runs.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Self
from uuid import uuid4

from langlauf.bench.postgres import connected
from langlauf.bench.rounds import ANALYSIS, ORG, RESULT, RoundTimes, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.store.sql import json_text, load_queries

_STATEMENTS = load_queries("bench.store.postgres", "ceiling.sql")
#: As the store's functions are planned: a plan is made while the tables are empty, and must look rows up by their keys.
_PLANNED = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
"""
_WARMING = 5
#: A statement by name and its values.
Step = tuple[str, Sequence[Any]]


class Ceiling:
    """Connections and what each of them will write."""

    def __init__(self, connections: list[Any], lanes: list[list[Step]], jobs: int) -> None:
        self._connections = connections
        self._lanes = lanes
        self._jobs = jobs

    @classmethod
    async def open(cls, stack: AsyncExitStack, url: str, *, name: str, jobs: int, group: int, lanes: int) -> Self:
        """Prepares everything: rows, connections, statements."""
        sizes = [min(group, jobs - start) for start in range(0, jobs, group)]
        steps: list[list[Step]] = [[] for _ in range(min(lanes, len(sizes)))]
        tickets = [0] * len(steps)
        for number, size in enumerate(sizes):
            lane = number % len(steps)
            steps[lane] += _stages(f"{ORG}-{name}-{lane}", size, tickets[lane])
            tickets[lane] += size
        connections = [await stack.enter_async_context(connected(url, _PLANNED)) for _ in steps]
        return cls(connections, steps, jobs)

    async def warm_up(self) -> None:
        """A few rows on each connection: they make its plans, which costs once."""
        for connection in self._connections:
            await _write(connection, _stages(f"{ORG}-{new_id()}", _WARMING, 0))

    async def run(self) -> RoundTimes:
        """Write it all."""
        began, cpu_before = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for connection, steps in zip(self._connections, self._lanes, strict=True):
                group.create_task(_write(connection, steps))
        return RoundTimes(
            jobs=self._jobs,
            seconds=time.perf_counter() - began,
            transactions=sum(len(steps) for steps in self._lanes),
            submits=[],
            starts=[],
            cpu_seconds=time.process_time() - cpu_before,
        )


async def _write(connection: Any, steps: list[Step]) -> None:
    for name, values in steps:
        await connection.execute(_STATEMENTS[name], *values)


def _stages(org: str, count: int, tickets: int) -> list[Step]:
    """Return the four statements of so many jobs: submitted, claimed, shown in part, completed."""
    clock = SystemClock()
    group = [new_job(clock, org) for _ in range(count)]
    now = clock.now()
    ids = [new.job.job_id for new in group]
    traces = [new.job.trace_id for new in group], [new.job.request_id for new in group]
    inputs = [bytes.fromhex(new.job.request_payload_hash) for new in group], [new.payload for new in group]
    numbers = list(range(tickets + 1, tickets + count + 1))
    partials, finals = [new_id() for _ in group], [new_id() for _ in group]
    return [
        ("submit", (org, ids, *inputs, *traces, numbers, ANALYSIS, now)),
        ("claim", (org, ids, ANALYSIS, now, uuid4())),
        ("partial", (org, ids, partials, _facts(partials), RESULT, now)),
        ("complete", (org, ids, finals, RESULT, now)),
    ]


def _facts(result_ids: list[str]) -> list[str]:
    return [json_text({"result_id": one, "result_seq": 1, "progress_percent": 50}) for one in result_ids]
