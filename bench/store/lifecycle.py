"""The life of jobs through the SQLite store, and beside it the raw ceiling."""

from pathlib import Path

import uvloop

from bench.store.ceiling import measure_ceiling
from bench.store.counting_store import CountingStore
from bench.store.figures import Figures, JobCost
from langlauf.bench.rounds import JobRound, RoundTimes, percentiles
from langlauf.clock import SystemClock
from langlauf.hints import Hints


def measure_lifecycle(folder: Path, jobs: int, concurrency: int) -> Figures:
    """Measure a round of the store and one of the ceiling, in groups as large as the store's were."""
    lived = uvloop.run(_live(folder / "lifecycle.db", jobs, concurrency))
    ceiling = measure_ceiling(folder / "ceiling.db", jobs, max(1, round(lived.mean_batch)))
    return lifecycle_figures(lived, ceiling, concurrency)


def lifecycle_figures(lived: RoundTimes, ceiling: float, concurrency: int, cost: JobCost | None = None) -> Figures:
    """Return what a round found, by label."""
    where = f"store, {concurrency} jobs at once"
    submits, starts = percentiles(lived.submits), percentiles(lived.starts)
    found = {
        f"{where}: ratio to the raw ceiling": lived.jobs_per_second / ceiling,
        f"{where}: jobs/s": lived.jobs_per_second,
        "raw ceiling: jobs/s": ceiling,
        f"{where}: writes in a transaction": lived.mean_batch,
        f"{where}: submit p50, ms": submits.p50,
        f"{where}: submit p99, ms": submits.p99,
        f"{where}: submit to start p50, ms": starts.p50,
        f"{where}: submit to start p99, ms": starts.p99,
    }
    if cost is not None and cost.database_us is not None:
        found[f"{where}: processor time of the database per job, µs"] = cost.database_us
    if cost is not None:
        found[f"{where}: processor time of the client per job, µs"] = cost.client_us
    return found


async def _live(path: Path, jobs: int, concurrency: int) -> RoundTimes:
    hints = Hints()
    store = await CountingStore.open(str(path), clock=SystemClock(), hints=hints)
    try:
        lived = await JobRound(store, hints, jobs=jobs, concurrency=concurrency).run()
        lived.transactions = store.transactions
        return lived
    finally:
        await store.close()
