"""One run: the measurements that were asked for, each in a folder of its own that is removed afterwards."""

import os
import platform
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from langlauf.bench.backlog import measure_backlog
from langlauf.bench.cost import measure_cost
from langlauf.bench.figures import Compared, Report, Watch
from langlauf.bench.http import measure_http
from langlauf.bench.lifecycle import SqlitePlace, measure_lifecycle
from langlauf.bench.plan import Plan
from langlauf.bench.polls import measure_polls
from langlauf.clock import SystemClock
from langlauf.domain.instant import to_text

#: Of a thing that takes milliseconds, in each round.
_SAMPLES_PER_ROUND = 50


def run(plan: Plan, folder: Path, watcher: Callable[[str], Watch]) -> Report:
    """Measures the SQLite store in turn; `watcher` opens a progress bar of that name."""
    cost = lifecycle = http = polls = None
    compared: dict[str, list[Compared]] = {}
    with TemporaryDirectory(prefix="langlauf-bench-", dir=folder) as made:
        where = Path(made)
        if "cost" in plan.names:
            cost = measure_cost(where, jobs=plan.jobs, rounds=plan.rounds, watch=watcher("cost of a job"))
        if "lifecycle" in plan.names:
            lifecycle = measure_lifecycle(
                SqlitePlace(where),
                jobs=plan.jobs,
                concurrency=plan.concurrency,
                rounds=plan.rounds,
                watch=watcher("store and ceiling"),
            )
        if "http" in plan.names:
            http = measure_http(
                where,
                jobs=plan.jobs,
                clients=plan.clients,
                max_running=plan.concurrency,
                rounds=plan.rounds,
                ceiling=lifecycle.ceiling_jobs_per_second if lifecycle else None,
                watch=watcher("HTTP"),
            )
        if "polls" in plan.names:
            polls = measure_polls(where, plan.histories, watcher("filling"), watcher("polls"))
        if "backlog" in plan.names:
            fill, watch = watcher("filling queues"), watcher("claims beside queues")
            compared["backlog"] = measure_backlog(where, plan.backlogs, plan.rounds * _SAMPLES_PER_ROUND, fill, watch)
    return Report(
        measured_at=to_text(SystemClock().now()),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        cores=os.cpu_count() or 1,
        cost=cost,
        lifecycle=lifecycle,
        http=http,
        polls=polls,
        compared=compared or None,
    )
