"""The cost of a warm child process: a plain function against a coroutine that does nothing, alternating."""

import statistics
from datetime import datetime

from tests.faults.api import Api, Record
from tests.faults.fleet import Fleet
from tests.faults.plan import Plan
from tests.faults.report import Figure, at_least, measured, quick

_PAIRS = 500
_LIMIT = 5.0
_TIMEOUT = 60.0


async def run(plan: Plan) -> list[Figure]:
    """Measure from accepted to ended by the store's times, one job after the other."""
    plan = plan._replace(app="tests.faults.plain_probes:app")
    wanted = plan.times(_PAIRS)
    times: dict[str, list[float]] = {"nothing": [], "nothing_plain": []}
    async with Fleet(plan, "latency", {}) as fleet, Api(fleet) as api:
        await fleet.serve(1)
        await _run_one(api, "nothing_plain")  # the processes are warm now
        for number in range(wanted):
            for analysis, durations in times.items():
                durations.append(await _run_one(api, analysis))
            plan.watch(number + 1, wanted)
        await fleet.stop()
    on_loop, in_process = (statistics.median(durations) for durations in times.values())
    return [
        at_least("pairs of jobs", len(times["nothing"]), wanted),
        measured("a coroutine, accepted to ended, p50", round(on_loop, 3), f"{on_loop:.2f} ms"),
        measured("a plain function, accepted to ended, p50", round(in_process, 3), f"{in_process:.2f} ms"),
        quick("what a warm process adds at p50", in_process - on_loop, _LIMIT, " ms"),
    ]


async def _run_one(api: Api, analysis: str) -> float:
    job = await api.submit(analysis)
    ended = await api.ended(job["job_id"], _TIMEOUT)
    assert ended is not None
    assert ended["status"] == "completed", ended
    return (_at(ended, "finished_at") - _at(ended, "queued_at")).total_seconds() * 1_000


def _at(job: Record, name: str) -> datetime:
    return datetime.fromisoformat(job[name])
