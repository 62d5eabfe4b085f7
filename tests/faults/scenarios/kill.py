"""`kill -9` of a server or a worker at random moments under load: nothing is lost, and running jobs soon run again."""

import asyncio
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.api import Api
from tests.faults.fleet import Fleet, verified
from tests.faults.ledger import KEPT
from tests.faults.load import Load
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, at_most, measured, measured_seconds, never
from tests.faults.verdicts import JobObservation, Kill, computed_again, healthy_losses, observe_jobs, recoveries

LEASE, SWEEP = 1.5, 0.3
#: Allowance of the contract besides lease and sweep.
SLACK = 1.0
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": str(LEASE),
    "LANGLAUF_SWEEP_SECONDS": str(SWEEP),
}
_LONGEST_PAUSE = 1.2
_TIMEOUT = 60.0
#: Below this scale only the last shape is run.
_ALL_SHAPES = 0.02


class Shape(NamedTuple):
    """The processes of a deployment, and its number of rounds at the full scale."""

    name: str
    #: workers inside the server
    inside: int
    #: worker processes beside it
    beside: int
    #: concurrent jobs; as many again wait, so that a free slot is taken at once
    slots: int
    longest_job: float
    rounds: int


SHAPES = (
    Shape("a server with its own worker", inside=1, beside=0, slots=24, longest_job=0.8, rounds=40),
    Shape("a server and one worker process", inside=0, beside=1, slots=24, longest_job=0.8, rounds=20),
    Shape("a server and two worker processes", inside=0, beside=2, slots=12, longest_job=2.0, rounds=40),
)


class Found(NamedTuple):
    """The outcome of the rounds of one deployment."""

    kills: list[Kill]
    seen: list[JobObservation]
    recovered: list[float]
    #: attempts that ran in the killed process, by the ledger
    interrupted: int
    healthy_losses: int
    chunks: int
    chunks_again: int
    replayed: int
    #: stored jobs that no response named
    unknown: int
    sound: bool


async def run(plan: Plan) -> list[Figure]:
    """Run the rounds of all shapes."""
    shapes = SHAPES if plan.scale >= _ALL_SHAPES else SHAPES[-1:]
    total = sum(plan.times(shape.rounds) for shape in shapes)
    found: list[Found] = []
    for number, shape in enumerate(shapes):
        done = sum(len(one.kills) for one in found)
        found.append(await _deployment(plan, shape, f"kill-{number}", done, total))
    return _figures(plan, found)


async def _deployment(plan: Plan, shape: Shape, name: str, done: int, total: int) -> Found:
    chance = plan.chance(shape.name)
    kills: list[Kill] = []
    interrupted = 0
    settings = {**SETTINGS, "LANGLAUF_MAX_RUNNING": str(shape.slots)}
    async with Fleet(plan, name, settings) as fleet, Api(fleet) as api:
        await asyncio.gather(fleet.serve(shape.inside), *(fleet.work() for _ in range(shape.beside)))
        async with Load(api, fleet.ledger, chance, unfinished=2 * shape.slots, longest=shape.longest_job) as load:
            for number in range(plan.times(shape.rounds)):
                kill, running = await _round(fleet, chance)
                kills.append(kill)
                interrupted += running
                plan.watch(done + number + 1, total)
        seen = await observe_jobs(api, load.accepted, seconds=_TIMEOUT)
        unknown = len(await api.jobs()) - len(set(load.accepted))
        await fleet.stop()
        lines = fleet.ledger.lines
        return Found(
            kills=kills,
            seen=list(seen.values()),
            recovered=recoveries(lines, kills),
            interrupted=interrupted,
            healthy_losses=healthy_losses(lines, kills),
            chunks=sum(line.kind == KEPT for line in lines),
            chunks_again=computed_again(lines),
            replayed=load.replayed,
            unknown=unknown,
            sound=await verified(fleet.store),
        )


async def _round(fleet: Fleet, chance: random.Random) -> tuple[Kill, int]:
    """Kill at a random moment, restart, and wait until the killed jobs run again."""
    await asyncio.sleep(chance.uniform(0, _LONGEST_PAUSE))  # the moment of the kill is the point
    victim = chance.choice(fleet.programs)
    at = await fleet.kill(victim)
    running = fleet.ledger.running(victim.pid)
    survived = any(program.workers for program in fleet.programs)
    successor = await fleet.again(victim)
    since = at if survived or not victim.workers else successor.ready_at

    def all_run_again() -> bool:
        latest = fleet.ledger.latest()
        return all(latest[line.job_id].attempt > line.attempt for line in running)

    await fleet.ledger.until(all_run_again, _TIMEOUT)
    return Kill(victim.pid, at, since), len(running)


def _figures(plan: Plan, found: Sequence[Found]) -> list[Figure]:
    seen = [one for deployment in found for one in deployment.seen]
    rounds = sum(len(deployment.kills) for deployment in found)
    return [
        at_least("rounds of kill -9", rounds, plan.times(100)),
        *promises(seen),
        never(
            "finished chunks computed again", sum(one.chunks_again for one in found), sum(one.chunks for one in found)
        ),
        never("jobs made twice by a repeated request", sum(one.unknown for one in found), len(seen)),
        *_recovery(found),
        measured("attempts that a kill interrupted", sum(one.interrupted for one in found)),
        measured("jobs that ran more than once", sum(one.job is not None and one.job["attempt"] > 1 for one in seen)),
        measured("answers lost in a kill and told again under their key", sum(one.replayed for one in found)),
        measured("leases lost by processes that lived", sum(one.healthy_losses for one in found)),
        all_of("stores that verify calls sound", sum(one.sound for one in found), len(found)),
    ]


def _recovery(found: Sequence[Found]) -> list[Figure]:
    seconds = [one for deployment in found for one in deployment.recovered] or [0.0]
    return [
        at_most("longest from kill to running again", max(seconds), LEASE + SWEEP + SLACK, " s"),
        measured_seconds("median from kill to running again", statistics.median(seconds)),
    ]
