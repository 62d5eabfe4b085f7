"""One run on a server: the measurements that were asked for, one after the other."""

import os
import platform
import statistics
from collections.abc import Callable

import apsw
import uvloop

from langlauf.bench.capacity import Costs, Need, cost_per_job, most_jobs_per_second
from langlauf.bench.figures import Compared, Hosts, Lifecycle, Modelled, Predicted, Report, Watch, median_cost
from langlauf.bench.lifecycle import measure_lifecycle
from langlauf.bench.plan import Plan
from langlauf.bench.postgres.cost import measure_cost_on_postgres
from langlauf.bench.postgres.dead import measure_dead
from langlauf.bench.postgres.notify import measure_notify
from langlauf.bench.postgres.place import PostgresPlace
from langlauf.bench.postgres.queues import measure_backlog, measure_held_back, measure_history, measure_orgs
from langlauf.bench.postgres.server import version
from langlauf.bench.postgres.stages import measure_costs
from langlauf.clock import SystemClock
from langlauf.domain.instant import to_text

_PROCESSES = (1, 2, 4)
_FEW_ORGS, _MANY_ORGS = 10, 10_000
_IN_LANES = 100_000
#: Of a thing that takes milliseconds, in each round.
_SAMPLES_PER_ROUND = 50
#: Of the longest queue, what one org that is held back has in it.
_HELD_SHARE = 5

Watcher = Callable[[str], Watch]


def run_on_postgres(plan: Plan, server: str, watcher: Watcher) -> Report:
    """Measures in turn; `watcher` opens a progress bar of that name."""
    server_version = uvloop.run(version(server))
    cost = None
    if "cost" in plan.names:
        watch = watcher("cost of a job")
        cost = uvloop.run(measure_cost_on_postgres(server, jobs=plan.jobs, rounds=plan.rounds, watch=watch))
    lifecycle = _lifecycle(plan, server, watcher) if "lifecycle" in plan.names else None
    hosts = _hosts(plan, server, watcher("hosts")) if "hosts" in plan.names else None
    compared = _compared(plan, server, watcher)
    notify = capacity = None
    if "notify" in plan.names:
        watch = watcher("NOTIFY")
        notify = uvloop.run(measure_notify(server, commits=plan.jobs, rounds=plan.rounds, watch=watch))
    if "capacity" in plan.names:
        costs = uvloop.run(measure_costs(server, plan.jobs, watcher("costs of writes")))
        capacity = Modelled(costs=costs, predictions=_predictions(costs, lifecycle) if lifecycle else [])
    return Report(
        measured_at=to_text(SystemClock().now()),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        cores=os.cpu_count() or 1,
        postgres=server_version,
        cost=cost,
        lifecycle=lifecycle,
        hosts=hosts,
        compared=compared or None,
        notify=notify,
        capacity=capacity,
    )


def _lifecycle(plan: Plan, server: str, watcher: Watcher) -> Lifecycle:
    return measure_lifecycle(
        PostgresPlace(server, processes=plan.processes, orgs=plan.orgs),
        jobs=plan.jobs,
        concurrency=plan.concurrency,
        rounds=plan.rounds,
        watch=watcher("store and ceiling"),
    )


def _hosts(plan: Plan, server: str, watch: Watch) -> list[Hosts]:
    """Rounds with few and with many processes in turns."""
    places = [PostgresPlace(server, processes=number, orgs=plan.orgs) for number in _PROCESSES]
    found = []
    for number in range(plan.rounds):
        watch(number, plan.rounds)
        found.append([place.live(number, plan.jobs, plan.concurrency) for place in places])
    watch(plan.rounds, plan.rounds)
    rates = [statistics.median(one.jobs_per_second for one, _ in rounds) for rounds in zip(*found, strict=True)]
    return [
        Hosts(
            processes=place.processes,
            jobs_per_second=round(rate, 1),
            ratio=round(rate / rates[0], 3),
            mean_batch=round(statistics.median(one.mean_batch for one, _ in rounds), 1),
            cost=median_cost([cost for _, cost in rounds]),
        )
        for place, rate, rounds in zip(places, rates, zip(*found, strict=True), strict=True)
    ]


def _compared(plan: Plan, server: str, watcher: Watcher) -> dict[str, list[Compared]]:
    samples = plan.rounds * _SAMPLES_PER_ROUND
    waiting, longest = min(plan.backlogs), max(plan.backlogs)
    found: dict[str, list[Compared]] = {}
    if "backlog" in plan.names:
        fill, watch = watcher("filling queues"), watcher("claims beside queues")
        found["backlog"] = uvloop.run(measure_backlog(server, plan.backlogs, samples, fill, watch))
        held = max(1, longest // _HELD_SHARE)
        found["held back"] = uvloop.run(measure_held_back(server, waiting, held, samples, fill, watch))
    if "orgs" in plan.names:
        in_lanes = min(_IN_LANES, longest)
        sizes = (_FEW_ORGS, max(1, min(_MANY_ORGS, in_lanes // 2)))
        fill, watch = watcher("filling lanes"), watcher("orgs")
        found["orgs"] = uvloop.run(measure_orgs(server, sizes, in_lanes, samples, fill, watch))
    if "history" in plan.names:
        fill, watch = watcher("filling histories"), watcher("history")
        found["history"] = uvloop.run(measure_history(server, plan.histories, samples, fill, watch))
    if "dead" in plan.names:
        fill, watch = watcher("filling a queue"), watcher("taking jobs")
        found["dead"] = uvloop.run(measure_dead(server, plan.taken, samples, fill, watch))
    return found


def _predictions(costs: Costs, lifecycle: Lifecycle) -> list[Predicted]:
    """What the model says of the lifecycle, given the size of its batches and the processors that were left to it."""
    if lifecycle.cost is None:
        return []
    batch = lifecycle.mean_batch
    database, client = cost_per_job(costs, batch)
    rate = most_jobs_per_second(costs, batch, Need(database_cores=lifecycle.cost.cores_left, hosts=lifecycle.processes))
    pairs = [
        ("processor time of the database per job, µs", database, lifecycle.cost.database_us),
        ("processor time of the client per job, µs", client, lifecycle.cost.client_us),
        ("jobs/s", rate, lifecycle.jobs_per_second),
    ]
    return [
        Predicted(what=what, predicted=round(said, 1), measured=seen, ratio=round(said / seen, 3))
        for what, said, seen in pairs
        if seen
    ]
