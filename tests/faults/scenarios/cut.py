"""Hosts lose their network silently: jobs of a worker continue elsewhere, and no accepted job of a server is lost."""

import asyncio
import random
import statistics
import time
import uuid
from collections.abc import Collection, Sequence
from typing import NamedTuple

from langlauf.domain.attempt import Lease, Progress, WriteResult
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.faults.api import Api
from tests.faults.fleet import Program
from tests.faults.hosts import LEASE, SLACK, SOON, SWEEP, Hosts, hosts
from tests.faults.ledger import END, REFUSED, START, STOPPED, Line
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, at_most, measured, measured_seconds, never
from tests.faults.verdicts import observe_jobs

_WORKERS_CUT, _SERVERS_CUT = 15, 5
_JOBS_PER_CUT = (8, 16)
_SUBMISSIONS = 20
_LONGEST_WAIT = 0.5
#: Client timeout before it tries another server.
_CLIENT_SECONDS = 2.0
_TIMEOUT = 60.0
_ORG = "default-org"


class WorkerCut(NamedTuple):
    """The outcome of one worker without a network."""

    jobs: list[str]
    #: from the cut to the start elsewhere, by job
    recovered: list[float]
    #: attempts that still ran when another worker had started their job
    beside: int
    #: lost attempts that the worker logged
    told_lost: int
    #: writes under lost leases, and how many were refused
    late: int
    refused: int


class ServerCut(NamedTuple):
    """The outcome of one server without a network."""

    jobs: list[str]
    replayed: int
    #: from the reconnect until it accepts jobs
    back_after: float


async def run(plan: Plan) -> list[Figure]:
    """Cut off workers in the middle of jobs, and servers in the middle of submissions."""
    of_workers, of_servers = plan.times(_WORKERS_CUT), plan.times(_SERVERS_CUT)
    workers: list[WorkerCut] = []
    servers: list[ServerCut] = []
    async with hosts(plan, "cut") as fleet, Api(fleet) as api, Api(fleet, seconds=_CLIENT_SECONDS) as hasty:
        first, second, *crew = await asyncio.gather(fleet.serve(), fleet.serve(), fleet.work(), fleet.work())
        store = await PostgresStore.open(fleet.store, hints=Hints(), notify=False)
        scene = _Scene(fleet, api, hasty, crew, (first, second), store, plan.chance("cut"))
        try:
            for number in range(of_workers):
                workers.append(await scene.cut_worker(number))
                plan.watch(number + 1, of_workers + of_servers)
            worked = await scene.work_again(of_workers)
            for number in range(of_servers):
                servers.append(await scene.cut_server())
                plan.watch(of_workers + number + 1, of_workers + of_servers)
        finally:
            await store.close()
        jobs = [job_id for one in workers for job_id in one.jobs] + [job_id for one in servers for job_id in one.jobs]
        seen = await observe_jobs(api, jobs, seconds=_TIMEOUT)
        unknown = len(await api.jobs()) - len(set(jobs)) - len(crew)
        await fleet.stop()
        sound = await fleet.sound()
    return [
        *_of_workers(workers, of_workers, worked, len(crew)),
        *_of_servers(servers, of_servers, unknown),
        *promises(list(seen.values())),
        all_of("databases that are sound", int(sound), 1),
    ]


class _Scene(NamedTuple):
    """The hosts and their clients."""

    fleet: Hosts
    api: Api
    #: a client with a short timeout
    hasty: Api
    workers: Sequence[Program]
    servers: tuple[Program, Program]
    store: PostgresStore
    chance: random.Random

    async def cut_worker(self, number: int) -> WorkerCut:
        """Cut a worker with running jobs, wait for the takeover and late writes, reconnect, and let the jobs end."""
        gate = self.fleet.folder / f"gate-{number}"
        jobs, victim = await self._fill(str(gate), self.chance.choice(_JOBS_PER_CUT))
        await asyncio.sleep(self.chance.uniform(0, _LONGEST_WAIT))  # the moment of the cut is the point
        at = time.monotonic()
        self.fleet.cut(victim)
        mine = self._running_on(victim, jobs)

        def taken_over() -> bool:
            latest = self.fleet.ledger.latest()
            return all(latest[line.job_id].attempt > line.attempt for line in mine)

        await self.fleet.ledger.until(taken_over, _TIMEOUT)
        await asyncio.sleep(self.chance.uniform(0, _LONGEST_WAIT))
        self.fleet.heal(victim)
        answers = [await self.store.record(Lease(_ORG, one.job_id, one.attempt), Progress(percent=99)) for one in mine]
        await victim.until(lambda: self._told_lost(victim, mine) >= len(mine), _TIMEOUT)
        gate.touch()
        await asyncio.gather(*(self.api.ended(job_id, _TIMEOUT) for job_id in jobs))
        latest = self.fleet.ledger.latest()
        return WorkerCut(
            jobs,
            recovered=[latest[line.job_id].at - at for line in mine if latest[line.job_id].attempt > line.attempt],
            beside=sum(self._went_on(line) for line in mine),
            told_lost=self._told_lost(victim, mine),
            late=len(mine),
            refused=answers.count(WriteResult.REFUSED),
        )

    async def cut_server(self) -> ServerCut:
        """Cut a server during submissions, repeat them at another one, reconnect; it must accept again."""
        victim, other = self.servers
        self.fleet.turn_to(victim)
        asked = [
            asyncio.create_task(self.hasty.submit("nap", key=uuid.uuid4().hex, input={"seconds": 0.1}))
            for _ in range(_SUBMISSIONS)
        ]
        await asyncio.sleep(self.chance.uniform(0, _LONGEST_WAIT / 5))  # the moment of the cut is the point
        self.fleet.cut(victim)
        self.fleet.turn_to(other)
        made = await asyncio.gather(*asked)
        healed_at = time.monotonic()
        self.fleet.heal(victim)
        self.fleet.turn_to(victim)
        last = await self.hasty.submit("nap", key=uuid.uuid4().hex, input={"seconds": 0})
        back_after = time.monotonic() - healed_at
        return ServerCut(
            [job["job_id"] for job in (*made, last)],
            replayed=sum(job["replayed"] for job in made),
            back_after=back_after,
        )

    async def work_again(self, number: int) -> int:
        """Return how many of the workers, each alone, complete a job."""
        worked = 0
        for worker in self.workers:
            gate = self.fleet.folder / f"gate-{number}-{worker.pid}"
            gate.touch()
            others = [one for one in self.workers if one is not worker]
            for other in others:
                other.pause()
            job = await self.api.submit("gated", input={"gate": str(gate)})
            end = await self.api.ended(job["job_id"], SOON)
            worked += end is not None and end["status"] == "completed"
            for other in others:
                other.go_on()
        return worked

    async def _fill(self, gate: str, count: int) -> tuple[list[str], Program]:
        """Start jobs, and return the worker that has most of them."""
        made = await asyncio.gather(*(self.api.submit("gated", input={"gate": gate}) for _ in range(count)))
        jobs = [job["job_id"] for job in made]
        assert await self.fleet.ledger.until(lambda: self.fleet.ledger.latest().keys() >= set(jobs), _TIMEOUT)
        return jobs, max(self.workers, key=lambda worker: len(self._running_on(worker, jobs)))

    def _running_on(self, worker: Program, jobs: Collection[str]) -> list[Line]:
        return [line for line in self.fleet.ledger.running(worker.pid) if line.job_id in jobs]

    def _went_on(self, line: Line) -> bool:
        """Whether an attempt still ran when the next one of its job started."""
        lines = [one for one in self.fleet.ledger.lines if one.job_id == line.job_id]
        ends = [one.at for one in lines if one.attempt == line.attempt and one.kind in (STOPPED, REFUSED, END)]
        starts = [one.at for one in lines if one.attempt > line.attempt and one.kind == START]
        return bool(starts) and min(ends, default=float("inf")) > min(starts)

    def _told_lost(self, program: Program, lines: Sequence[Line]) -> int:
        logged = {(fact["job_id"], fact["attempt"]) for fact in program.log_lines("attempt_lost")}
        return sum((line.job_id, line.attempt) in logged for line in lines)


def _of_workers(cuts: Sequence[WorkerCut], wanted: int, worked: int, workers: int) -> list[Figure]:
    recovered = [seconds for cut in cuts for seconds in cut.recovered] or [0.0]
    taken = sum(cut.late for cut in cuts)
    return [
        at_least("worker hosts cut off", len(cuts), wanted),
        at_least("attempts that a cut left alone", taken, wanted),
        at_most("longest from the cut to running elsewhere", max(recovered), LEASE + SWEEP + SLACK, " s"),
        measured_seconds("median from the cut to running elsewhere", statistics.median(recovered)),
        never("attempts that went on beside their successor", sum(cut.beside for cut in cuts), taken),
        all_of("late writes that were refused", sum(cut.refused for cut in cuts), taken),
        all_of("lost attempts that the cut-off worker tells of", sum(cut.told_lost for cut in cuts), taken),
        all_of("workers that work again", worked, workers),
    ]


def _of_servers(cuts: Sequence[ServerCut], wanted: int, unknown: int) -> list[Figure]:
    submissions = sum(len(cut.jobs) for cut in cuts)
    return [
        at_least("API hosts cut off", len(cuts), wanted),
        measured("answers lost in a cut and told again under their key", sum(cut.replayed for cut in cuts)),
        never("jobs made twice by a repeated request", unknown, submissions),
        at_most("longest from healing to the next 202", max(cut.back_after for cut in cuts), SOON, " s"),
    ]
