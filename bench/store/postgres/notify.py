"""What a NOTIFY in every commit costs, against one that gathers: bare statements on many connections.

PostgreSQL lets one transaction that notifies commit at a time, and holds that lock until the commit is on disk, so that
commits can no longer share a flush.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from bench.store.figures import Notify
from langlauf.bench.postgres import connected, own_database
from langlauf.bench.rounds import OnProgress

_CONNECTIONS = 32
_PAUSE = 0.02
_TABLE = "CREATE TABLE public.notes (number bigint, words text)"
_PLAIN = "INSERT INTO public.notes VALUES ($1, 'a row as small as can be')"
_WITH_NOTIFY = (
    "WITH new AS (INSERT INTO public.notes VALUES ($1, 'a row as small as can be')) SELECT pg_notify('bench', '')"
)


async def measure_notify(server: str, *, commits: int, rounds: int, watch: OnProgress) -> Notify:
    """Measure commits per second without NOTIFY, with one in each commit, and with one from another connection."""
    rates: dict[str, list[float]] = {"none": [], "each": [], "gathered": []}
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(own_database(server))
        connections = [await stack.enter_async_context(connected(url)) for _ in range(_CONNECTIONS)]
        apart = await stack.enter_async_context(connected(url))
        await apart.execute(_TABLE)
        for number in range(rounds):
            watch(number, rounds)
            rates["none"].append(await _rate(connections, _PLAIN, commits))
            rates["each"].append(await _rate(connections, _WITH_NOTIFY, commits))
            teller = asyncio.create_task(_tell(apart))
            rates["gathered"].append(await _rate(connections, _PLAIN, commits))
            teller.cancel()
            await asyncio.wait({teller})
        watch(rounds, rounds)
    none, each, gathered = (statistics.median(found) for found in rates.values())
    return Notify(
        connections=_CONNECTIONS,
        commits_per_second=round(none, 1),
        each_commit_ratio=round(each / none, 3),
        gathered_ratio=round(gathered / none, 3),
    )


async def _rate(connections: Sequence[Any], statement: str, commits: int) -> float:
    left = iter(range(commits))

    async def write(connection: Any) -> None:
        for number in left:
            await connection.execute(statement, number)

    for connection in connections:
        await connection.execute(statement, -1)  # prepares it
    began = time.perf_counter()
    await asyncio.gather(*(write(connection) for connection in connections))
    return commits / (time.perf_counter() - began)


async def _tell(connection: Any) -> None:
    while True:
        await connection.execute("SELECT pg_notify('bench', '')")
        await asyncio.sleep(_PAUSE)
