"""Cancel against completion: the first write wins, and the other changes nothing."""

import asyncio

from tests.faults.api import Api, Record
from tests.faults.fleet import Fleet, verified
from tests.faults.plan import Plan
from tests.faults.races import Aim, both_won, race, watched_again
from tests.faults.report import Figure, all_of

SETTINGS = {"LANGLAUF_MAX_RUNNING": "64"}
_LANES = 12
_RUN_SECONDS = 0.06
_TIMEOUT = 60.0
_SIDES = {"completed": "won by completion", "canceled": "won by the cancel"}


async def run(plan: Plan) -> list[Figure]:
    """Run short jobs, each canceled at about the moment at which it completes."""
    aim = Aim(plan.chance("cancel"), at=_RUN_SECONDS / 2, step=0.001, spread=0.004)
    async with Fleet(plan, "cancel", SETTINGS) as fleet, Api(fleet) as api:
        await fleet.serve(1)
        ends = await race(plan, _LANES, lambda: _one(api, aim))
        again = await watched_again(api, ends, _TIMEOUT)
        await fleet.stop()
        sound = await verified(fleet.store)
    return [*both_won(plan, ends, _SIDES), *again, all_of("stores that verify calls sound", int(sound), 1)]


async def _one(api: Api, aim: Aim) -> Record:
    accepted = await api.submit("nap", input={"seconds": _RUN_SECONDS})
    await asyncio.sleep(aim.draw())  # the moment of the cancel is the point
    job = await api.cancel(accepted["job_id"])
    if not job["finished_at"]:
        found = await api.ended(job["job_id"], _TIMEOUT)
        assert found is not None, job
        job = found
    aim.move(later=job["status"] == "canceled")
    return job
