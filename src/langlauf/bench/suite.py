"""One run: the measurements that were asked for, each in a folder of its own that is removed afterwards."""

import os
import platform
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from langlauf.bench.figures import Report, Watch
from langlauf.bench.http import measure_http
from langlauf.bench.lifecycle import SqlitePlace, measure_lifecycle
from langlauf.bench.plan import Plan
from langlauf.bench.polls import measure_polls
from langlauf.clock import SystemClock
from langlauf.domain.instant import to_text


def run(plan: Plan, folder: Path, watcher: Callable[[str], Watch]) -> Report:
    """Measures the SQLite store in turn; `watcher` opens a progress bar of that name."""
    lifecycle = http = polls = None
    with TemporaryDirectory(prefix="langlauf-bench-", dir=folder) as made:
        where = Path(made)
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
    return Report(
        measured_at=to_text(SystemClock().now()),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        cores=os.cpu_count() or 1,
        lifecycle=lifecycle,
        http=http,
        polls=polls,
    )
