"""A coroutine that blocks the event loop: its worker is ended before another one has the job."""

import asyncio
import signal
import time
from typing import NamedTuple

from tests.faults.api import Api
from tests.faults.fleet import Fleet, Program, verified
from tests.faults.judging import look_at
from tests.faults.ledger import END
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, never

LEASE = 2.0
SWEEP = 0.3
_SLACK = 1.0
_ROUNDS = 20
_PATIENCE = 60.0
SETTINGS = {"LANGLAUF_LEASE_SECONDS": str(LEASE), "LANGLAUF_SWEEP_SECONDS": str(SWEEP), "LANGLAUF_POLL_SECONDS": "0.1"}


class Round(NamedTuple):
    """One blocked worker."""

    job_id: str
    #: how its process ended
    code: int | None
    #: when it was gone, and when the next attempt started
    gone_at: float
    again_at: float
    #: whether the blocked attempt came to its end
    came_through: bool

    @property
    def shared(self) -> bool:
        """Whether two had the job at one time."""
        return self.again_at <= self.gone_at or self.came_through


async def run(plan: Plan) -> list[Figure]:
    """Blocks a worker, with the interpreter lock held or not, waits for its end, and sees another one take over."""
    plan = plan._replace(app="tests.faults.plain_probes:app")
    wanted = max(2, plan.times(_ROUNDS))
    async with Fleet(plan, "watchdog", SETTINGS) as fleet, Api(fleet) as api:
        await fleet.serve(0)
        rounds = []
        for number in range(wanted):
            rounds.append(await _round(fleet, api, "lock" if number % 2 else "sleep"))
            plan.watch(number + 1, wanted)
        seen = (await look_at(api, [one.job_id for one in rounds], seconds=_PATIENCE)).values()
        await fleet.stop()
        sound = await verified(fleet.store)
    return [
        at_least("workers with a blocked event loop", len(rounds), wanted),
        all_of("ended by the watchdog", sum(one.code == -signal.SIGABRT for one in rounds), len(rounds)),
        never("two owners at once", sum(one.shared for one in rounds), len(rounds)),
        all_of("jobs completed by another worker", sum(_completed(one.job) for one in seen), len(rounds)),
        at_most("longest from the end of the worker to the next start", _longest(rounds), LEASE + SWEEP + _SLACK, " s"),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


async def _round(fleet: Fleet, api: Api, how: str) -> Round:
    blocked = await fleet.work()
    job = await api.submit("block", input={"how": how, "seconds": LEASE * 4})
    job_id: str = job["job_id"]
    await fleet.ledger.until(lambda: job_id in fleet.ledger.latest(), _PATIENCE)
    other, gone_at = await asyncio.gather(fleet.work(), _gone(blocked))
    fleet.programs.remove(blocked)
    await fleet.ledger.until(lambda: fleet.ledger.latest()[job_id].attempt > 1, _PATIENCE)
    again_at = fleet.ledger.latest()[job_id].at
    await api.ended(job_id, _PATIENCE)
    came_through = any((line.job_id, line.attempt, line.kind) == (job_id, 1, END) for line in fleet.ledger.lines)
    await other.stop()
    fleet.programs.remove(other)
    return Round(job_id, blocked.process.returncode, gone_at, again_at, came_through)


async def _gone(program: Program) -> float:
    async with asyncio.timeout(_PATIENCE):
        await program.process.wait()
    return time.monotonic()


def _completed(job: dict[str, object] | None) -> bool:
    return job is not None and (job["status"], job["attempt"], job["retry_count"]) == ("completed", 2, 0)


def _longest(rounds: list[Round]) -> float:
    return max(one.again_at - one.gone_at for one in rounds)
