"""A worker is paused until another one has its jobs, and then continues: its late writes are refused."""

import asyncio
import random
from collections.abc import Collection
from typing import NamedTuple

from tests.faults.api import Api
from tests.faults.fleet import Fleet, Program, verified
from tests.faults.ledger import REFUSED, Line
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, measured, never
from tests.faults.verdicts import JobObservation, observe_jobs, stale_writes

SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": "1",
    "LANGLAUF_SWEEP_SECONDS": "0.25",
    "LANGLAUF_POLL_SECONDS": "0.1",
    "LANGLAUF_MAX_RUNNING": "32",
}
_TAKEOVERS = 200
_JOBS_PER_PAUSE = (8, 16)
_LONGEST_WAIT = 0.2
_TIMEOUT = 60.0


class Pause(NamedTuple):
    """The outcome of one pause."""

    jobs: list[str]
    #: whether the worker resumed last time ran all of them
    worked: bool
    #: jobs that the other worker took over
    taken: int
    #: lost attempts in the log of the resumed worker
    told_lost: int
    #: pauses that hit a commit and were repeated: such a process keeps the lock of the file, which blocks a takeover
    repeated: int


async def run(plan: Plan) -> list[Figure]:
    """Pause one worker with its jobs again and again; the other takes them over."""
    wanted = plan.times(_TAKEOVERS)
    pauses: list[Pause] = []
    async with Fleet(plan, "stop", SETTINGS) as fleet, Api(fleet) as api:
        _, sleeper, other = await asyncio.gather(fleet.serve(0), fleet.work(), fleet.work())
        scene = _Scene(fleet, api, sleeper, other, plan.chance("stop"))
        while sum(pause.taken for pause in pauses) < wanted:
            pauses.append(await scene.pause(len(pauses)))
            assert pauses[-1].taken, "no job was taken over"
            plan.watch(sum(pause.taken for pause in pauses), wanted)
        worked_at_last = await scene.works_again(len(pauses))
        seen = await observe_jobs(api, [job_id for pause in pauses for job_id in pause.jobs], seconds=_TIMEOUT)
        await fleet.stop()
        sound = await verified(fleet.store)
    worked = [pause.worked for pause in pauses[1:]] + [worked_at_last]
    return _figures(wanted, pauses, worked, list(seen.values()), fleet.ledger.lines, sound=sound)


class _Scene(NamedTuple):
    """The paused worker, the other one, and what they share."""

    fleet: Fleet
    api: Api
    sleeper: Program
    other: Program
    chance: random.Random

    async def pause(self, number: int) -> Pause:
        """Start jobs, pause, wait for the takeover, resume, and let the jobs end."""
        gate = self.fleet.store.parent / f"gate-{number}"
        jobs, repeated, worked = await self._fill(str(gate), self.chance.choice(_JOBS_PER_PAUSE))
        self.other.go_on()
        repeated += await self._pause_between_commits(self.sleeper)
        await self.fleet.ledger.until(lambda: self._running_in(self.other, jobs, attempt=2) == len(jobs), _TIMEOUT)
        taken = self._running_in(self.other, jobs, attempt=2)
        self.sleeper.go_on()
        await self.sleeper.until(lambda: self._told_lost(jobs) >= taken, _TIMEOUT)
        told_lost = self._told_lost(jobs)
        gate.touch()
        await asyncio.gather(*(self.api.ended(job_id, _TIMEOUT) for job_id in jobs))
        return Pause(jobs, worked, taken, told_lost, repeated)

    async def works_again(self, number: int) -> bool:
        """Whether the resumed worker, alone, completes new jobs."""
        gate = self.fleet.store.parent / f"gate-{number}"
        gate.touch()
        jobs, _, worked = await self._fill(str(gate), _JOBS_PER_PAUSE[0])
        ends = await asyncio.gather(*(self.api.ended(job_id, _TIMEOUT) for job_id in jobs))
        self.other.go_on()
        return worked and all(end is not None and end["status"] == "completed" for end in ends)

    async def _fill(self, gate: str, count: int) -> tuple[list[str], int, bool]:
        """Submit jobs while the other is paused, so that the first one claims them."""
        repeated = await self._pause_between_commits(self.other)
        made = await asyncio.gather(*(self.api.submit("gated", input={"gate": gate}) for _ in range(count)))
        jobs = [job["job_id"] for job in made]
        worked = await self.fleet.ledger.until(
            lambda: self._running_in(self.sleeper, jobs, attempt=1) == count, _TIMEOUT
        )
        return jobs, repeated, worked

    async def _pause_between_commits(self, program: Program) -> int:
        """Pause at a random moment; return how often that was repeated because it held the lock of the file."""
        repeated = 0
        while True:
            await asyncio.sleep(self.chance.uniform(0, _LONGEST_WAIT))  # the moment of the pause is the point
            program.pause()
            if await asyncio.to_thread(self.fleet.write_lock_is_free):
                return repeated
            program.go_on()
            repeated += 1

    def _running_in(self, program: Program, jobs: Collection[str], attempt: int) -> int:
        latest = self.fleet.ledger.latest()
        newest = [latest[job_id] for job_id in jobs if job_id in latest]
        return sum(line.pid == program.pid and line.attempt >= attempt for line in newest)

    def _told_lost(self, jobs: Collection[str]) -> int:
        return sum(fact["job_id"] in jobs for fact in self.sleeper.log_lines("attempt_lost"))


def _figures(
    wanted: int, pauses: list[Pause], worked: list[bool], seen: list[JobObservation], lines: list[Line], *, sound: bool
) -> list[Figure]:
    takeovers = sum(pause.taken for pause in pauses)
    return [
        at_least("takeovers from a paused worker", takeovers, wanted),
        never("stale writes accepted", sum(stale_writes(one.events, one.snapshots) for one in seen), takeovers),
        never("jobs ended twice", sum(one.ended_twice for one in seen), takeovers),
        never("jobs lost or stuck", sum(one.lost or one.stuck for one in seen), takeovers),
        all_of("lost attempts that the woken worker tells of", sum(pause.told_lost for pause in pauses), takeovers),
        all_of("woken workers that go on working", sum(worked), len(pauses)),
        measured("pauses", len(pauses)),
        measured("refusals that the analyses saw", sum(line.kind == REFUSED for line in lines)),
        measured("pauses in the middle of a commit, set again", sum(pause.repeated for pause in pauses)),
        all_of("stores that verify calls sound", int(sound), 1),
    ]
