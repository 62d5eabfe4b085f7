"""Rounds in databases of a server: one for each, gone after it."""

import uvloop

from bench.store.figures import JobCost
from bench.store.postgres.client import Task
from bench.store.postgres.clients import run_side_by_side
from langlauf.bench.postgres import own_database
from langlauf.bench.rounds import RoundTimes

#: Connections that write at once: the store has one each for submitting, claiming and recording, and its clients more.
_LANES = 4


class PostgresRounds:
    """Clients in processes of their own, which share the jobs and the jobs in flight."""

    def __init__(self, server: str, *, processes: int = 1) -> None:
        self.processes = processes
        self._server = server

    def live(self, jobs: int, concurrency: int) -> tuple[RoundTimes, JobCost]:
        """Return a round of the store, and what it cost."""
        return uvloop.run(self._live(jobs, concurrency))

    def ceiling(self, jobs: int, group: int) -> tuple[float, JobCost]:
        """Return a round of the ceiling in groups of that size: jobs per second, and what it cost."""
        lived, cost = uvloop.run(self._ceiling(jobs, group))
        return lived.jobs_per_second, cost

    async def _live(self, jobs: int, concurrency: int) -> tuple[RoundTimes, JobCost]:
        async with own_database(self._server) as url:
            shares = zip(_shares(jobs, self.processes), _shares(concurrency, self.processes), strict=True)
            tasks = [
                Task(what="store", url=url, name=str(number), jobs=mine, concurrency=at_once)
                for number, (mine, at_once) in enumerate(shares)
            ]
            return await run_side_by_side(tasks)

    async def _ceiling(self, jobs: int, group: int) -> tuple[RoundTimes, JobCost]:
        async with own_database(self._server) as url:
            lanes = max(1, _LANES // self.processes)
            tasks = [
                Task(what="ceiling", url=url, name=str(number), jobs=mine, group=group, lanes=lanes)
                for number, mine in enumerate(_shares(jobs, self.processes))
            ]
            return await run_side_by_side(tasks)


def _shares(whole: int, parts: int) -> list[int]:
    """Return a number in parts that differ by one at most; each is one at least."""
    return [max(1, (whole + part) // parts) for part in range(parts)]
