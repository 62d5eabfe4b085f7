"""Coroutines that swallow their cancellation: their jobs end, their writes are refused, their slots are freed."""

import asyncio
import time
from typing import NamedTuple

from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.ledger import END, REFUSED
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, never
from tests.faults.verdicts import JobObservation, observe_jobs

GRACE = 0.3
#: What a busy machine may add to the grace.
SLACK = 1.0
SLOTS = 4
SETTINGS = {"LANGLAUF_CANCEL_GRACE": str(GRACE), "LANGLAUF_MAX_RUNNING": str(SLOTS)}
_TIME_LIMIT = 0.5
_ROUNDS = 10
_TIMEOUT = 60.0
_TOLD = 'langlauf_log_events_total{event="attempt_abandoned"}'


class Round(NamedTuple):
    """All slots taken by coroutines that ignore their cancel, and the outcome."""

    jobs: list[str]
    #: from the cancel or the timeout to the end of the job
    seconds: list[float]
    #: other jobs that completed while the abandoned coroutines still ran
    beside: int
    #: abandoned coroutines whose write after the end was refused
    refused: int


async def run(plan: Plan) -> list[Figure]:
    """Fill all slots with such coroutines, cancel half of them and let the others time out."""
    rounds: list[Round] = []
    wanted = plan.times(_ROUNDS)
    async with Fleet(plan, "abandoned", SETTINGS) as fleet, Api(fleet) as api:
        server = await fleet.serve(1)
        for number in range(wanted):
            rounds.append(await _round(fleet, api, number))
            plan.watch(number + 1, wanted)
        jobs = [job_id for one in rounds for job_id in one.jobs]
        seen = await observe_jobs(api, jobs, seconds=_TIMEOUT)
        counted = int(await api.metric(_TOLD))
        logged = {fact["job_id"] for fact in server.log_lines("attempt_abandoned")}
        await fleet.stop()
        sound = await verified(fleet.store)
    return [
        *_figures(rounds, list(seen.values()), jobs, wanted),
        all_of("abandoned coroutines that the log tells of", len(logged & set(jobs)), len(jobs)),
        all_of("abandoned coroutines that the metric counts", counted, len(jobs)),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


async def _round(fleet: Fleet, api: Api, number: int) -> Round:
    gate = fleet.store.parent / f"gate-{number}"
    values = {"gate": str(gate)}
    canceled = [await api.submit("deaf", input=values) for _ in range(SLOTS // 2)]
    overdue = [
        await api.submit("deaf", input=values, timeout_seconds=_TIME_LIMIT, options={"async_mode": {"max_retries": 0}})
        for _ in range(SLOTS - SLOTS // 2)
    ]
    jobs = [job["job_id"] for job in canceled + overdue]
    await fleet.ledger.until(lambda: set(jobs) <= set(fleet.ledger.latest()), _TIMEOUT)
    seconds = await asyncio.gather(
        *(_canceled(api, job["job_id"]) for job in canceled), *(_overdue(fleet, api, job["job_id"]) for job in overdue)
    )
    beside = await _completed_beside(api)
    await fleet.ledger.until(lambda: _noted(fleet, REFUSED, jobs) == len(jobs), _TIMEOUT)
    still_deaf = len(jobs) - _noted(fleet, END, jobs)
    refused = _noted(fleet, REFUSED, jobs)
    gate.touch()
    await fleet.ledger.until(lambda: _noted(fleet, END, jobs) == len(jobs), _TIMEOUT)
    return Round(jobs, list(seconds), beside if still_deaf == len(jobs) else 0, refused)


async def _canceled(api: Api, job_id: str) -> float:
    began = time.monotonic()
    await api.cancel(job_id)
    await api.ended(job_id, _TIMEOUT)
    return time.monotonic() - began


async def _overdue(fleet: Fleet, api: Api, job_id: str) -> float:
    await api.ended(job_id, _TIMEOUT)
    return time.monotonic() - fleet.ledger.latest()[job_id].at - _TIME_LIMIT


async def _completed_beside(api: Api) -> int:
    """Run as many other jobs as there are slots; return how many complete."""
    made = await asyncio.gather(*(api.submit("nap", input={"seconds": 0.05}) for _ in range(SLOTS)))
    ends = await asyncio.gather(*(api.ended(job["job_id"], _TIMEOUT) for job in made))
    return sum(end is not None and end["status"] == "completed" for end in ends)


def _noted(fleet: Fleet, kind: str, jobs: list[str]) -> int:
    return len({line.job_id for line in fleet.ledger.lines if line.kind == kind} & set(jobs))


def _figures(rounds: list[Round], seen: list[JobObservation], jobs: list[str], wanted: int) -> list[Figure]:
    ended_as = [one.job["status"] for one in seen if one.job is not None]
    longest = max(seconds for one in rounds for seconds in one.seconds)
    return [
        at_least("coroutines that swallow their cancellation", len(jobs), wanted * SLOTS),
        measured(
            "of them canceled / out of time", len(jobs), f"{ended_as.count('canceled')} / {ended_as.count('failed')}"
        ),
        at_most("longest from the cancel or the time limit to the end", longest, GRACE + SLACK, " s"),
        never("jobs ended twice, or written to after their end", sum(one.ended_twice for one in seen), len(jobs)),
        never("jobs lost or stuck", sum(one.lost or one.stuck for one in seen), len(jobs)),
        all_of("abandoned coroutines whose late writes are refused", sum(one.refused for one in rounds), len(jobs)),
        all_of("slots given back while they still go on", sum(one.beside for one in rounds), len(jobs)),
    ]
