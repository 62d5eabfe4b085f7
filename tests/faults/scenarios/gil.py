"""A plain function that holds the interpreter lock for three leases keeps its lease: its worker sends heartbeats."""

import asyncio

from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, never
from tests.faults.verdicts import observe_jobs

LEASE = 1.5
LEASES = 3
_JOBS = 20
_AT_ONCE = 4
_TIMEOUT = 60.0
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": str(LEASE),
    "LANGLAUF_SWEEP_SECONDS": "0.2",
    "LANGLAUF_MAX_RUNNING": str(_AT_ONCE),
}


async def run(plan: Plan) -> list[Figure]:
    """Run such functions concurrently, while sweeps look for expired leases."""
    plan = plan._replace(app="tests.faults.plain_probes:app")
    wanted = plan.times(_JOBS)
    async with Fleet(plan, "gil", SETTINGS) as fleet, Api(fleet) as api:
        server = await fleet.serve(1)
        made = [await api.submit("spin", input={"seconds": LEASE * LEASES}) for _ in range(wanted)]
        jobs = [job["job_id"] for job in made]
        for number, job_id in enumerate(jobs):
            await api.ended(job_id, _TIMEOUT)
            plan.watch(number + 1, wanted)
        seen = list((await observe_jobs(api, jobs, seconds=_TIMEOUT)).values())
        lost = len(server.log_lines("attempt_lost")) + len(server.log_lines("job_swept"))
        await asyncio.wait_for(fleet.stop(), _TIMEOUT)
        sound = await verified(fleet.store)
    once = sum(one.job is not None and (one.job["status"], one.job["attempt"]) == ("completed", 1) for one in seen)
    return [
        at_least("functions that hold the interpreter lock for three leases", len(jobs), wanted),
        all_of("completed in their first attempt", once, len(jobs)),
        never("leases lost", lost, len(jobs)),
        all_of("stores that verify calls sound", int(sound), 1),
    ]
