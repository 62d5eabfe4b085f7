"""The stores themselves: what a job costs, how that grows, what one PostgreSQL carries, retention beside others."""

import asyncio
import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import msgspec
import uvloop

from bench.context import Context
from bench.progress import ProgressPrinter
from bench.results import Measured
from bench.sections.rounds import run_rounds
from bench.services import fresh_database
from bench.store.capacity import Costs, Need, cost_per_job, most_jobs_per_second
from bench.store.cost import measure_cost
from bench.store.figures import Compared, Figures, JobCost
from bench.store.growth import measure_backlog, measure_dead, measure_history
from bench.store.lifecycle import lifecycle_figures, measure_lifecycle
from bench.store.postgres import dead as postgres_dead
from bench.store.postgres import queues
from bench.store.postgres.cost import measure_cost_on_postgres
from bench.store.postgres.notify import measure_notify
from bench.store.postgres.rounds import PostgresRounds
from bench.store.postgres.stages import measure_costs
from langlauf.bench.rounds import RoundTimes
from langlauf.store.postgres.migrate import migrate
from langlauf.store.sqlite.connection import migrate as migrate_file
from langlauf.store.sqlite.connection import open_connection
from tests.scale import retention

_JOBS, _IN_FLIGHT, _MANY_IN_FLIGHT = 2_000, 64, 500
_PROCESSES = (1, 2, 4)
_FEW_ORGS, _MANY_ORGS, _IN_LANES = 10, 10_000, 100_000
#: Of a thing that takes milliseconds, in each round.
_SAMPLES = 50
_TAKEN = 200_000
#: Of the longest queue, what one org that is held back has in it.
_HELD_SHARE = 5


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two stores."""

    name: str
    needs: tuple[str, ...] = ()
    on_disk: str = ""


SQLITE = Store(name="SQLite")
POSTGRES = Store(name="PostgreSQL", needs=("postgres",))


def measure_store_cost(context: Context, found: Measured) -> None:
    """Processor time, rows, bytes and updates in place of a job, and the life of many beside the raw ceiling."""
    jobs = context.of_jobs(_JOBS)

    def measure(store: Store) -> Figures:
        if store is SQLITE:
            with TemporaryDirectory(dir=context.folder) as made:
                cost = measure_cost(Path(made) / "cost.db", jobs)
                return {**cost.figures(), **measure_lifecycle(Path(made), jobs, _IN_FLIGHT)}
        cost = uvloop.run(measure_cost_on_postgres(context.postgres or "", jobs))
        return {**cost.figures(), **_lifecycle_on_postgres(context, jobs, _IN_FLIGHT)[0]}

    run_rounds(context, found, (SQLITE, POSTGRES), measure)


def measure_growth(context: Context, found: Measured) -> None:
    """Claims, submissions and status reads beside few and many jobs, and claims beside dead entries."""
    samples, sizes, taken = _SAMPLES * context.rounds, context.sizes, context.of_jobs(_TAKEN)

    def measure(store: Store) -> Figures:
        if store is SQLITE:
            steps = ProgressPrinter("SQLite")
            return _flat(
                measure_backlog(context.data, sizes, samples, steps),
                measure_history(context.data, sizes, samples, steps),
                measure_dead(context.data, taken, samples, steps),
            )
        server, steps = context.postgres or "", ProgressPrinter("PostgreSQL")
        return _flat(
            uvloop.run(queues.measure_backlog(server, sizes, samples, steps, steps)),
            uvloop.run(queues.measure_history(server, sizes, samples, steps, steps)),
            uvloop.run(postgres_dead.measure_dead(server, taken, samples, steps, steps)),
        )

    # The stores are filled once; rounds are samples in them.
    run_rounds(msgspec.structs.replace(context, rounds=1), found, (SQLITE, POSTGRES), measure)


def measure_scaling(context: Context, found: Measured) -> None:
    """What one PostgreSQL carries: processes, orgs, limits, NOTIFY, and the constants of the model of capacity."""
    jobs = context.of_jobs(5 * _JOBS)

    def measure(_: Store) -> Figures:
        server = context.postgres or ""
        lifecycle, lived, cost = _lifecycle_on_postgres(context, jobs, _MANY_IN_FLIGHT)
        first = "costs" not in found.extra
        costs = uvloop.run(measure_costs(server, jobs, ProgressPrinter("costs of writes")))
        found.extra["costs"] = msgspec.to_builtins(costs)
        return {
            **lifecycle,
            **_predictions(costs, lived, cost),
            **_processes(context, jobs),
            **(_orgs(context) if first else {}),  # filling takes minutes; its samples are many
            **uvloop.run(measure_notify(server, commits=jobs, rounds=1, watch=ProgressPrinter("NOTIFY"))).figures(),
        }

    run_rounds(context, found, (POSTGRES,), measure)


def measure_retention(context: Context, found: Measured) -> None:
    """Submissions beside the removal of a million rows that are too old, and without it."""
    jobs = context.of_jobs(retention.JOBS)

    def measure(store: Store) -> Figures:
        with _expired(context, store, jobs) as place:
            seen = asyncio.run(retention.measure(place, rounds=4 * context.rounds))
        if wrong := seen.complaints():
            raise RuntimeError("; ".join(wrong))
        alone, beside = (retention.worst_hundredth(times) * 1_000 for times in (seen.without, seen.during))
        removed = sum(sum(seen.before[kind].values()) - sum(seen.after[kind].values()) for kind in seen.before)
        return {
            "rows removed": removed,
            "rows removed per s": removed / seen.seconds,
            "submit p99 without it, ms": alone,
            "submit p99 beside it, ms": beside,
            "submit p99: ratio": beside / alone,
            "submit p50 without it, ms": statistics.median(seen.without) * 1_000,
            "submit p50 beside it, ms": statistics.median(seen.during) * 1_000,
        }

    # Removing takes its time: rounds are turns within one removal.
    run_rounds(msgspec.structs.replace(context, rounds=1), found, (SQLITE, POSTGRES), measure)


def _flat(*groups: Iterable[Compared]) -> Figures:
    return {label: value for group in groups for one in group for label, value in one.figures().items()}


def _lifecycle_on_postgres(context: Context, jobs: int, concurrency: int) -> tuple[Figures, RoundTimes, JobCost]:
    place = PostgresRounds(context.postgres or "")
    lived, cost = place.live(jobs, concurrency)
    ceiling, _ = place.ceiling(jobs, max(1, round(lived.mean_batch)))
    return lifecycle_figures(lived, ceiling, concurrency, cost), lived, cost


def _predictions(costs: Costs, lived: RoundTimes, cost: JobCost) -> Figures:
    """Return what the model says of a lifecycle, given its batches and processors, to what was measured."""
    database, client = cost_per_job(costs, lived.mean_batch)
    rate = most_jobs_per_second(costs, lived.mean_batch, Need(database_cores=cost.cores_left))
    pairs = [
        ("processor time of the database", database, cost.database_us),
        ("processor time of the client", client, cost.client_us),
        ("jobs/s", rate, lived.jobs_per_second),
    ]
    return {f"model, {what}: predicted to measured": said / seen for what, said, seen in pairs if seen}


def _processes(context: Context, jobs: int) -> Figures:
    rates = {}
    for number in _PROCESSES:
        lived, _ = PostgresRounds(context.postgres or "", processes=number).live(jobs, _MANY_IN_FLIGHT)
        rates[number] = lived.jobs_per_second
    return {f"{number} processes on one database: ratio to one": rates[number] / rates[1] for number in _PROCESSES[1:]}


def _orgs(context: Context) -> Figures:
    server, samples, steps = context.postgres or "", _SAMPLES, ProgressPrinter("orgs")
    waiting, longest = min(context.sizes), max(context.sizes)
    in_lanes = min(_IN_LANES, longest)
    many = max(1, min(_MANY_ORGS, in_lanes // 2))
    held = max(1, longest // _HELD_SHARE)
    return _flat(
        uvloop.run(queues.measure_held_back(server, waiting, held, samples, steps, steps)),
        uvloop.run(queues.measure_orgs(server, (_FEW_ORGS, many), in_lanes, samples, steps, steps)),
    )


@contextmanager
def _expired(context: Context, store: Store, jobs: int) -> Iterator[str]:
    """Yield where a store is that holds what is too old, and some that is not."""
    if store is SQLITE:
        with TemporaryDirectory(dir=context.folder) as made:
            place = f"{made}/store.db"
            connection = open_connection(place)
            migrate_file(connection)
            connection.execute("PRAGMA synchronous = OFF")
            for sql in retention.SCENE.statements(jobs, False):
                connection.execute(sql)
            connection.close()
            yield place
        return

    async def fill(url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await migrate(connection)
            await connection.execute("SET search_path = langlauf, pg_temp; SET synchronous_commit = off")
            for sql in retention.SCENE.statements(jobs, True):
                await connection.execute(sql, timeout=None)
            await connection.execute("VACUUM ANALYZE", timeout=None)
        finally:
            await connection.close()

    with fresh_database(context.postgres or "") as url:
        asyncio.run(fill(url))
        yield url
