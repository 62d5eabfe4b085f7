"""`kill -9` of child processes of plain functions, and of their worker: each death costs one attempt."""

import asyncio
import os
import signal
import time

from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.ledger import Line
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, never
from tests.faults.verdicts import observe_jobs, stale_writes
from tests.support.processes import alive

LEASE = 2.0
SWEEP = 0.3
_SLACK = 1.0
_SLOTS = 4
_KILLS = 100
_WORKER_KILLS = 20
_RUN = 0.8
_TIMEOUT = 90.0
#: How long a child may outlive its worker.
_OUTLIVE = 1.0
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": str(LEASE),
    "LANGLAUF_SWEEP_SECONDS": str(SWEEP),
    "LANGLAUF_POLL_SECONDS": "0.1",
    "LANGLAUF_MAX_RUNNING": str(_SLOTS),
}


async def run(plan: Plan) -> list[Figure]:
    """Kill children at random moments, then whole workers with their children."""
    plan = plan._replace(app="tests.faults.plain_probes:app")
    kills, worker_kills = plan.times(_KILLS), plan.times(_WORKER_KILLS)
    chance = plan.chance("children")
    jobs: list[str] = []
    crashed: dict[str, int] = {}
    outlived = []
    async with Fleet(plan, "children", SETTINGS) as fleet, Api(fleet) as api:
        await fleet.serve(0)
        worker = await fleet.work()
        for number in range(kills + worker_kills):
            jobs += [job["job_id"] for job in [await api.submit("grind", input={"seconds": _RUN}) for _ in range(2)]]
            running = await _some_running(fleet, crashed)
            await asyncio.sleep(chance.uniform(0, _RUN / 2))
            if number < kills:
                _kill_one(chance.choice(running), crashed)
            else:
                pids = {line.pid for line in running}
                killed_at = await fleet.kill(worker)
                outlived.append(await _gone(pids) - killed_at)
                worker = await fleet.work()
                # A job that loses its worker ten times fails: each may finish before the next worker is killed.
                await asyncio.gather(*(api.ended(line.job_id, _TIMEOUT) for line in running))
            plan.watch(number + 1, kills + worker_kills)
        seen = await observe_jobs(api, jobs, seconds=_TIMEOUT)
        await fleet.stop()
        sound = await verified(fleet.store)
    found = list(seen.values())
    ends = [one.job["status"] if one.job else None for one in found]
    codes = sorted({str(one.job["error_code"]) for one in found if one.job and one.job["error_code"]})
    return [
        at_least("processes killed", sum(crashed.values()), kills * 9 // 10),
        at_least("workers killed with what they run", len(outlived), worker_kills),
        never("jobs lost or stuck", sum(one.lost or one.stuck for one in found), len(found)),
        never("jobs ended twice", sum(one.ended_twice for one in found), len(found)),
        all_of("jobs completed", ends.count("completed"), len(found)),
        measured("error codes of the others", len(codes), ", ".join(codes) or "none"),
        never("retries spent on it", sum(one.job["retry_count"] for one in found if one.job), len(found)),
        never("stale writes accepted", sum(stale_writes(one.events, one.snapshots) for one in found), len(found)),
        at_most("longest that a process outlived its worker", max(outlived), _OUTLIVE, " s"),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


async def _some_running(fleet: Fleet, crashed: dict[str, int]) -> list[Line]:
    """Return running attempts of jobs that were not hit yet: three deaths would fail them."""

    def running() -> list[Line]:
        ended = fleet.ledger.ended()
        latest = fleet.ledger.latest().values()
        return [line for line in latest if line.job_id not in ended and line.job_id not in crashed and alive(line.pid)]

    await fleet.ledger.until(lambda: bool(running()), _TIMEOUT)
    return running()


def _kill_one(line: Line, crashed: dict[str, int]) -> None:
    try:
        os.kill(line.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has just ended
        return
    crashed[line.job_id] = crashed.get(line.job_id, 0) + 1


async def _gone(pids: set[int]) -> float:
    """Return when all of them were gone."""
    async with asyncio.timeout(_TIMEOUT):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110 - processes of others give no signal
            await asyncio.sleep(0.005)
    return time.monotonic()
