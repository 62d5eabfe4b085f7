"""`python -m tests.postgres.schedule_storm`: schedules due in one minute, fired by processes that are killed at random.

Each planned run must become exactly one job. Prints how many are missing and double, and how long after its planned
time a run was queued.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

from langlauf import Job, Langlauf
from langlauf.bootstrap import run_application
from langlauf.domain.instant import SECOND, after
from langlauf.settings import load_settings
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database

_ADD = """
INSERT INTO langlauf.schedules (org_id, name, analysis, input, every_seconds, zone, overlap, missed, paused, source,
    created_at, updated_at, next_run_at)
SELECT 'org-' || (number % {orgs}), 'plan-' || number, 'survey', '{{}}', 86400, 'UTC', 'skip', 'once', false, 'api',
    {start} - 86400000000 + offset_us, 1, {start} + offset_us
FROM (SELECT number, (number * 7919::bigint % {count}) * {spread} / {count} AS offset_us
      FROM generate_series(0, {count} - 1) AS number) AS one
"""


def make_app() -> Langlauf:
    """An analysis that no worker runs here: its jobs stay queued."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def survey(job: Job) -> dict[str, int]:
        return {}

    return app


def fire_forever(url: str) -> None:
    """One of the processes: no worker, the duty that fires schedules, and all the others."""
    settings = load_settings(
        {"LANGLAUF_STORE": url, "LANGLAUF_MAX_WAITING_PER_ORG": "1000000", "LANGLAUF_MAX_WAITING": "1000000"},
        workers="0",
    )

    async def main() -> None:
        async with run_application(make_app().registry, settings):
            await asyncio.Event().wait()

    asyncio.run(main())


def _start(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.postgres.schedule_storm", "--fire", url])


def main() -> None:
    """Exit 1 where a run is missing or double."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fire", metavar="URL", help="be one of the processes")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--orgs", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--spread", type=float, default=55.0, help="seconds over which the planned times lie")
    parser.add_argument("--kill-every", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.fire:
        fire_forever(given.fire)
    with migrated_database() as url:
        sys.exit(not _storm(url, given))


def _storm(url: str, given: argparse.Namespace) -> bool:
    chance, processes = random.Random(given.seed), [_start(url) for _ in range(given.processes)]
    time.sleep(15)
    start = after(round(time.time() * SECOND), 5)
    values = {"orgs": given.orgs, "count": given.schedules, "start": start, "spread": round(given.spread * SECOND)}
    fetch(url, _ADD.format(**values))
    killed, end = 0, time.time() + 5 + given.spread + 10
    try:
        while time.time() < end:
            time.sleep(given.kill_every)
            one = chance.randrange(len(processes))
            os.kill(processes[one].pid, signal.SIGKILL)
            processes[one].wait()
            processes[one] = _start(url)
            killed += 1
        time.sleep(10)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    [row] = fetch(
        url,
        "SELECT count(*) AS jobs, count(DISTINCT (org_id, schedule, planned_at)) AS planned,"
        " percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY (queued_at - planned_at) / 1e6) AS delay"
        " FROM langlauf.job_rows",
    )
    [left] = fetch(url, f"SELECT count(*) AS due FROM langlauf.schedules WHERE next_run_at < {start} + 86400000000 - 1")
    figures = {
        "schedules": given.schedules,
        "killed": killed,
        "jobs": row["jobs"],
        "twice": row["jobs"] - row["planned"],
        "missing": given.schedules - row["planned"],
        "still_due": left["due"],
        "delay_p50_p99_max": [round(seconds, 3) for seconds in row["delay"]],
    }
    print(json.dumps(figures))
    return bool(row["jobs"] == row["planned"] == given.schedules)


if __name__ == "__main__":
    main()
