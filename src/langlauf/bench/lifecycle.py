"""The life of jobs through a store, and beside it the raw ceiling: rounds of both in turns.

A round of the ceiling follows each round of the store, in groups as large as the store's were. Where that happens, in
files or in databases of a server, is a place; what is measured is the same in each.
"""

import statistics
from pathlib import Path
from typing import Protocol

import uvloop

from langlauf.bench.ceiling import measure_ceiling
from langlauf.bench.counting_store import CountingStore
from langlauf.bench.crowd import Crowd, Lived
from langlauf.bench.figures import JobCost, Lifecycle, Round, Watch, median_cost, median_spread, spread
from langlauf.clock import SystemClock
from langlauf.hints import Hints


class Place(Protocol):
    """Where the rounds are: each of them in something fresh."""

    processes: int

    def live(self, number: int, jobs: int, concurrency: int) -> tuple[Lived, JobCost | None]:
        """A round of the store, and what it cost where that can be told."""

    def ceiling(self, number: int, jobs: int, group: int) -> tuple[float, JobCost | None]:
        """A round of the ceiling in groups of that size: jobs per second, and what it cost."""


class SqlitePlace:
    """Files in a folder."""

    processes = 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def live(self, number: int, jobs: int, concurrency: int) -> tuple[Lived, JobCost | None]:
        return uvloop.run(self._live(self._folder / f"store-{number}.db", jobs, concurrency)), None

    def ceiling(self, number: int, jobs: int, group: int) -> tuple[float, JobCost | None]:
        return measure_ceiling(self._folder / f"ceiling-{number}.db", jobs, group), None

    async def _live(self, path: Path, jobs: int, concurrency: int) -> Lived:
        hints = Hints()
        store = await CountingStore.open(str(path), clock=SystemClock(), hints=hints)
        try:
            lived = await Crowd(store, hints, jobs=jobs, concurrency=concurrency).live()
            lived.transactions = store.transactions
            return lived
        finally:
            await store.close()


def measure_lifecycle(place: Place, *, jobs: int, concurrency: int, rounds: int, watch: Watch) -> Lifecycle:
    """Rounds of store and ceiling in turns, after one of each that only warms up."""
    done: list[Round] = []
    for number in range(rounds + 1):
        watch(number, rounds + 1)
        size = jobs if number else max(1, jobs // 4)
        found = _round(place, number, size, concurrency)
        if number:
            done.append(found)
    watch(rounds + 1, rounds + 1)
    jobs_per_second = statistics.median(one.jobs_per_second for one in done)
    ceiling = statistics.median(one.ceiling_jobs_per_second for one in done)
    return Lifecycle(
        jobs=jobs,
        concurrency=concurrency,
        processes=place.processes,
        jobs_per_second=round(jobs_per_second, 1),
        ceiling_jobs_per_second=round(ceiling, 1),
        ratio_to_ceiling=round(jobs_per_second / ceiling, 3),
        mean_batch=round(statistics.median(one.mean_batch for one in done), 1),
        submit_ms=median_spread([one.submit_ms for one in done]),
        submit_to_start_ms=median_spread([one.submit_to_start_ms for one in done]),
        cost=median_cost([one.cost for one in done]),
        ceiling_cost=median_cost([one.ceiling_cost for one in done]),
        rounds=done,
    )


def _round(place: Place, number: int, jobs: int, concurrency: int) -> Round:
    lived, cost = place.live(number, jobs, concurrency)
    ceiling, ceiling_cost = place.ceiling(number, jobs, max(1, round(lived.mean_batch)))
    return Round(
        jobs_per_second=round(lived.jobs_per_second, 1),
        ceiling_jobs_per_second=round(ceiling, 1),
        mean_batch=round(lived.mean_batch, 1),
        submit_ms=spread(lived.submits),
        submit_to_start_ms=spread(lived.starts),
        cost=cost,
        ceiling_cost=ceiling_cost,
    )
