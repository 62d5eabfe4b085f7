"""One org has thousands of jobs waiting, one has jobs that always fail; a third one's job waits for one at most."""

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
#: Jobs that are stopped as soon as they run, and tried again as often as may be.
_FAILING = 300
_FAILING_OPTIONS = {"async_mode": {"requested": True, "max_retries": 100, "allow_duplicate": True}}
_FAILING_TIMEOUT = 0.05
_PATIENCE = 60.0


async def run(plan: Plan) -> list[Figure]:
    """The same probe job without and with the flood, in the same run."""
    waiting_wanted = plan.times(_WAITING)
    probes = max(_FEWEST_PROBES, plan.times(_PROBES))
    chance = plan.chance("fairness")
    async with (
        Fleet(plan, "fairness", SETTINGS) as fleet,
        Api(fleet, "many") as many,
        Api(fleet, "few") as few,
        Api(fleet, "failing") as failing,
    ):
        await fleet.serve(1)
        alone = [await _probe(few) for _ in range(_FEWEST_PROBES)]
        await _flood(plan, many, waiting_wanted + _SPARE_PER_PROBE * probes, chance)
        beside = [await _probe_at_a_random_moment(few, chance) for _ in range(probes)]
        waiting = int(await many.metric("langlauf_jobs_waiting"))
        await _keep_failing(failing, max(_LANES, plan.times(_FAILING)))
        beside_both = [await _probe_at_a_random_moment(few, chance) for _ in range(probes)]
        retries = sum(job["retry_count"] for job in await failing.page())
        running_job = await _mean_run(many)
        await fleet.stop()
        sound = await verified(fleet.store)
    fair = statistics.median(alone) + running_job
    return [
        at_least("jobs of one org that wait", waiting, waiting_wanted),
        told("probe jobs of the other org", len(beside)),
        *_ratios(statistics.median(alone), running_job, beside),
        at_least("retries of the third org meanwhile, of its newest jobs", retries, 1),
        took("submit to end beside flood and retries, median", statistics.median(beside_both)),
        at_most("the same ratio beside flood and retries, worst", max(beside_both) / fair, 1.0),
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


async def _keep_failing(api: Api, count: int) -> None:
    """Submits jobs that run out of time at once, each time they are tried."""

    async def one() -> None:
        await api.submit("nap", input={"seconds": 30}, timeout_seconds=_FAILING_TIMEOUT, options=_FAILING_OPTIONS)

    await asyncio.gather(*(one() for _ in range(count)))


async def _mean_run(api: Api) -> float:
    """What a job of the flood took, from its start to its end."""
    ended = await api.page(status="completed")
    return statistics.mean(_at(job["finished_at"]) - _at(job["started_at"]) for job in ended)


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
