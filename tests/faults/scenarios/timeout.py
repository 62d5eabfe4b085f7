"""Timeout against completion: an attempt that ends at its timeout has one end."""

from tests.faults.api import Api, Record
from tests.faults.fleet import Fleet, verified
from tests.faults.plan import Plan
from tests.faults.races import Aim, both_won, race, watched_again
from tests.faults.report import Figure, all_of, measured

#: So short a grace and sweep interval that a third writer joins: the sweep.
SETTINGS = {"LANGLAUF_MAX_RUNNING": "64", "LANGLAUF_CANCEL_GRACE": "0.001", "LANGLAUF_SWEEP_SECONDS": "0.005"}
_LANES = 24
_RUN_SECONDS = 0.04
_SHORTEST_LIMIT = 0.001
_TIMEOUT = 60.0
_SIDES = {"completed": "won by completion", "failed": "won by the timeout"}


async def run(plan: Plan) -> list[Figure]:
    """Run short jobs with a timeout of about their run time."""
    aim = Aim(plan.chance("timeout"), at=_RUN_SECONDS, step=0.0005, spread=0.002)
    async with Fleet(plan, "timeout", SETTINGS) as fleet, Api(fleet) as api:
        server = await fleet.serve(1)
        ends = await race(plan, _LANES, lambda: _one(api, aim))
        again = await watched_again(api, ends, _TIMEOUT)
        await fleet.stop()
        sound = await verified(fleet.store)
    codes = {job["error_code"] for job in ends.values() if job["status"] == "failed"}
    assert codes <= {"timeout"}, codes
    swept = len(server.log_lines("job_swept"))
    return [
        *both_won(plan, ends, _SIDES),
        measured("timeouts that the sweep wrote", swept),
        *again,
        all_of("stores that verify calls sound", int(sound), 1),
    ]


async def _one(api: Api, aim: Aim) -> Record:
    accepted = await api.submit(
        "nap",
        input={"seconds": _RUN_SECONDS},
        timeout_seconds=max(_SHORTEST_LIMIT, aim.draw()),
        options={"async_mode": {"max_retries": 0}},
    )
    job = await api.ended(accepted["job_id"], _TIMEOUT)
    assert job is not None, accepted
    aim.move(later=job["status"] == "failed")
    return job
