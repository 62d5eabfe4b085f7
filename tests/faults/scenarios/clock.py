"""Hosts whose clocks are off by an hour: no lease is lost, none is taken over early, and stored times are right."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.api import Api, Record
from tests.faults.fleet import Program
from tests.faults.hosts import LEASE, Hosts, hosts
from tests.faults.ledger import START
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, measured, never
from tests.faults.verdicts import JobObservation, observe_jobs
from tests.support.server import ROOT

_HOUR = 3600.0
_ROUNDS, _JOBS = 10, 24
#: Length of a round: each lease is renewed many times, and would have expired.
_LEASES = 1.5
_EVERY = 0.5
_SHIFTED = Path(__file__).parents[1] / "shifted"
_TIMEOUT = 60.0
#: Rounding.
_TOLERANCE = 0.01
_TIMES = ("queued_at", "started_at", "attempt_started_at", "finished_at", "updated_at")


async def run(plan: Plan) -> list[Figure]:
    """One worker is an hour ahead, one an hour behind, both sweep; the server is right."""
    rounds = plan.times(_ROUNDS)
    jobs: list[str] = []
    async with hosts(plan, "clock") as fleet, Api(fleet) as api:
        _, *workers = await asyncio.gather(
            fleet.serve(), fleet.work(settings=_off_by(_HOUR)), fleet.work(settings=_off_by(-_HOUR))
        )
        began = time.time()
        for number in range(rounds):
            jobs += await _round(fleet, api, f"gate-{number}")
            plan.watch(number + 1, rounds)
        seen = await observe_jobs(api, jobs, seconds=_TIMEOUT)
        ended = time.time()
        await fleet.stop()
        sound = await fleet.sound()
        starts = [line.pid for line in fleet.ledger.lines if line.kind == START]
    told_times = [moment for one in seen.values() for moment in _times(one)]
    wrong = [moment for moment in told_times if not began - _TOLERANCE <= moment <= ended + _TOLERANCE]
    return [
        at_least("jobs that outlive their first lease", len(jobs), rounds * _JOBS),
        *_shifts(workers, began),
        measured("starts by the worker ahead and the one behind", len(starts), _shares(starts, workers)),
        never("leases lost, or jobs taken over", sum(_attempts(one) - 1 for one in seen.values()), len(jobs)),
        never("stored times that are not the database's", len(wrong), len(told_times)),
        *promises(list(seen.values())),
        all_of("databases that are sound", int(sound), 1),
    ]


async def _round(fleet: Hosts, api: Api, name: str) -> list[str]:
    """Run jobs until their gate opens after some leases."""
    gate = fleet.folder / name
    given = {"gate": str(gate), "every": _EVERY}
    made = await asyncio.gather(*(api.submit("gated", input=given) for _ in range(_JOBS)))
    jobs = [job["job_id"] for job in made]
    assert await fleet.ledger.until(lambda: fleet.ledger.latest().keys() >= set(jobs), _TIMEOUT)
    await asyncio.sleep(_LEASES * LEASE)  # the passing time is the point
    gate.touch()
    await asyncio.gather(*(api.ended(job_id, _TIMEOUT) for job_id in jobs))
    return jobs


def _off_by(seconds: float) -> Mapping[str, str]:
    path = os.pathsep.join(map(str, (_SHIFTED, ROOT / "src", ROOT)))
    return {"LANGLAUF_TEST_CLOCK_SHIFT": str(seconds), "PYTHONPATH": path}


def _shifts(programs: Sequence[Program], began: float) -> list[Figure]:
    """Check by their logs that the clocks are shifted, else nothing was shown."""
    off = [round((_moment(program.facts[0]["time"]) - began) / _HOUR) for program in programs]
    return [all_of("hosts whose clock is off by an hour", [abs(one) for one in off].count(1), len(programs))]


def _times(seen: JobObservation) -> list[float]:
    job: Record = seen.job or {}
    return [_moment(job[name]) for name in _TIMES] + [_moment(event["occurred_at"]) for event in seen.events]


def _attempts(seen: JobObservation) -> int:
    return int(seen.job["attempt"]) if seen.job is not None else 0


def _shares(starts: Sequence[int], workers: Sequence[Program]) -> str:
    return " / ".join(str(starts.count(worker.pid)) for worker in workers)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
