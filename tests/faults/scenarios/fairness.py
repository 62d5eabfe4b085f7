"""One org has thousands of jobs waiting; another one's job is not held up by more than one job that runs."""

import asyncio
import random
import statistics
import time
from datetime import datetime

from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, told, took

#: As an operator has it who sets nothing: eight jobs at once.
SETTINGS: dict[str, str] = {}
_WAITING = 10_000
_PROBES = 40
_FEWEST_PROBES = 8
_LANES = 32
_RUN_SECONDS = 0.3
#: More than run while a probe is made.
_SPARE_PER_PROBE = 30
_WATCH_EVERY = 500
_PATIENCE = 60.0


async def run(plan: Plan) -> list[Figure]:
    """The same probe job without and with the flood, in the same run."""
    waiting_wanted = plan.times(_WAITING)
    probes = max(_FEWEST_PROBES, plan.times(_PROBES))
    chance = plan.chance("fairness")
    async with Fleet(plan, "fairness", SETTINGS) as fleet, Api(fleet, "many") as many, Api(fleet, "few") as few:
        await fleet.serve(1)
        alone = [await _probe(few) for _ in range(_FEWEST_PROBES)]
        await _flood(plan, many, waiting_wanted + _SPARE_PER_PROBE * probes, chance)
        beside = [await _probe_at_a_random_moment(few, chance) for _ in range(probes)]
        waiting = int(await many.metric("langlauf_jobs_waiting"))
        running_job = await _mean_run(many)
        await fleet.stop()
        sound = await verified(fleet.store)
    return [
        at_least("jobs of one org that wait", waiting, waiting_wanted),
        told("probe jobs of the other org", len(beside)),
        *_ratios(statistics.median(alone), running_job, beside),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


def _ratios(own: float, running_job: float, beside: list[float]) -> list[Figure]:
    """What the flood costs the other org, beside what it may cost."""
    fair, median = own + running_job, statistics.median(beside)
    return [
        took("own run time without the flood, median", own),
        took("one running job of the flood, mean", running_job),
        took("submit to end beside the flood, median", median),
        took("submit to end beside the flood, longest", max(beside)),
        told("ratio to own run time plus one running job, median", median / fair, f"{median / fair:.2f}"),
        at_most("ratio to own run time plus one running job, worst", max(beside) / fair, 1.0),
    ]


async def _probe_at_a_random_moment(api: Api, chance: random.Random) -> float:
    """The same, wherever the running jobs stand."""
    await asyncio.sleep(chance.uniform(0, _RUN_SECONDS))  # the moment is the point
    return await _probe(api)


async def _probe(api: Api) -> float:
    """One job: seconds from its submission to its end."""
    began = time.monotonic()
    job = await api.submit("nap", input={"seconds": _RUN_SECONDS})
    ended = await api.ended(job["job_id"], _PATIENCE)
    assert ended is not None
    assert ended["status"] == "completed", ended
    return time.monotonic() - began


async def _flood(plan: Plan, api: Api, wanted: int, chance: random.Random) -> None:
    """Submits until so many wait. Their run times differ, so that their ends do not come all at once."""
    count = 0

    async def lane() -> None:
        nonlocal count
        while count < wanted:
            count += 1
            await api.submit("nap", input={"seconds": chance.uniform(0.5, 1.5) * _RUN_SECONDS})
            if count % _WATCH_EVERY == 0:
                plan.watch(min(count, wanted), wanted)

    while (waiting := int(await api.metric("langlauf_jobs_waiting"))) < wanted:
        count = waiting
        await asyncio.gather(*(lane() for _ in range(_LANES)))
    plan.watch(wanted, wanted)


async def _mean_run(api: Api) -> float:
    """What a job of the flood took, from its start to its end."""
    ended = await api.page(status="completed")
    return statistics.mean(_at(job["finished_at"]) - _at(job["started_at"]) for job in ended)


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
