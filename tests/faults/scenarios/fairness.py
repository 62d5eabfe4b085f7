"""One org has thousands of waiting jobs, one has jobs that always fail; a third org's job waits for at most one."""

import asyncio
import random
import statistics
import time
from datetime import datetime

from tests.faults.api import Api, Record
from tests.faults.fleet import Fleet, verified
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, measured_seconds, quick

#: The default: eight jobs at once.
SETTINGS: dict[str, str] = {}
_WAITING = 10_000
_PROBES = 40
_FEWEST_PROBES = 8
_LANES = 32
_RUN_SECONDS = 0.3
#: A flood is served in turns with a new job: one start may come before it.
_OVERTAKEN = 1
#: More than run during a probe.
_SPARE_PER_PROBE = 30
_WATCH_EVERY = 500
#: Jobs that time out as soon as they run, and are retried as often as allowed.
_FAILING = 300
_FAILING_OPTIONS = {"async_mode": {"requested": True, "max_retries": 100, "allow_duplicate": True}}
_FAILING_TIMEOUT = 0.05
_TIMEOUT = 60.0


async def run(plan: Plan) -> list[Figure]:
    """Time the same probe job without and with the flood, in the same run."""
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
        alone = await _probes(few, _FEWEST_PROBES)
        await _flood(plan, many, waiting_wanted + _SPARE_PER_PROBE * probes, chance)
        beside = await _probes(few, probes, chance)
        waiting = int(await many.metric("langlauf_jobs_waiting"))
        await _keep_failing(failing, max(_LANES, plan.times(_FAILING)))
        beside_both = await _probes(few, probes, chance)
        retries = sum(job["retry_count"] for job in await failing.page())
        running_job = await _mean_run(many)
        overtaken = _most_overtaken(await many.jobs(), await few.jobs())
        await fleet.stop()
        sound = await verified(fleet.store)
    fair = statistics.median(alone) + running_job
    return [
        at_least("jobs of one org that wait", waiting, waiting_wanted),
        measured("probe jobs of the other org", len(beside)),
        *_ratios(statistics.median(alone), running_job, beside),
        at_most("starts of the flood while a probe waited, most", overtaken, _OVERTAKEN),
        at_least("retries of the third org meanwhile, of its newest jobs", retries, 1),
        measured_seconds("submit to end beside flood and retries, median", statistics.median(beside_both)),
        quick("the same ratio beside flood and retries, worst", max(beside_both) / fair, 1.0),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


def _ratios(own: float, running_job: float, beside: list[float]) -> list[Figure]:
    """Return what the flood costs the other org, and the limit."""
    fair, median = own + running_job, statistics.median(beside)
    return [
        measured_seconds("own run time without the flood, median", own),
        measured_seconds("one running job of the flood, mean", running_job),
        measured_seconds("submit to end beside the flood, median", median),
        measured_seconds("submit to end beside the flood, longest", max(beside)),
        measured("ratio to own run time plus one running job, median", median / fair, f"{median / fair:.2f}"),
        quick("ratio to own run time plus one running job, worst", max(beside) / fair, 1.0),
    ]


async def _probes(api: Api, count: int, chance: random.Random | None = None) -> list[float]:
    """Run jobs one after the other, at random moments of the running jobs."""
    seconds: list[float] = []
    for _ in range(count):
        if chance:
            await asyncio.sleep(chance.uniform(0, _RUN_SECONDS))  # the moment is the point
        seconds.append(await _probe(api))
    return seconds


async def _probe(api: Api) -> float:
    """Run one job; return the seconds from its submission to its end."""
    began = time.monotonic()
    job = await api.submit("nap", input={"seconds": _RUN_SECONDS})
    ended = await api.ended(job["job_id"], _TIMEOUT)
    assert ended is not None
    assert ended["status"] == "completed", ended
    return time.monotonic() - began


async def _flood(plan: Plan, api: Api, wanted: int, chance: random.Random) -> None:
    """Submit until so many wait. Their run times differ, so that their ends are spread."""
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
    """Submit jobs that time out at once on every attempt."""

    async def one() -> None:
        await api.submit("nap", input={"seconds": 30}, timeout_seconds=_FAILING_TIMEOUT, options=_FAILING_OPTIONS)

    await asyncio.gather(*(one() for _ in range(count)))


def _most_overtaken(flood: dict[str, Record], probes: dict[str, Record]) -> int:
    """Return how many jobs of the flood started after a probe was accepted and before it started, at most."""
    starts = [_at(job["started_at"]) for job in flood.values() if job["started_at"]]
    waits = [(_at(probe["queued_at"]), _at(probe["started_at"])) for probe in probes.values()]
    return max(sum(accepted < start < begun for start in starts) for accepted, begun in waits)


async def _mean_run(api: Api) -> float:
    """Return the mean run time of a job of the flood."""
    ended = await api.page(status="completed")
    return statistics.mean(_at(job["finished_at"]) - _at(job["started_at"]) for job in ended)


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
