"""Races between two writers that both end a job, aimed so that either wins about as often, and observed twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.faults.api import Api, Record
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, never
from tests.faults.verdicts import JobObservation, changed, observe_jobs

RACES = 2_000
_WATCH_EVERY = 50


class Aim:
    """The moment at which both sides meet: it moves against the last winner, with some jitter."""

    def __init__(self, chance: random.Random, *, at: float, step: float, spread: float) -> None:
        self._chance = chance
        self._at = at
        self._step = step
        self._spread = spread

    def draw(self) -> float:
        """Return the moment of the next race."""
        return max(0.0, self._chance.gauss(self._at, self._spread))

    def move(self, *, later: bool) -> None:
        """Move the moment later or earlier."""
        self._at = max(0.0, self._at + (self._step if later else -self._step))


async def race(plan: Plan, lanes: int, one: Callable[[], Awaitable[Record]]) -> dict[str, Record]:
    """Run races concurrently; return each job as it was at its end."""
    total = plan.times(RACES)
    numbers = iter(range(1, total + 1))
    ends: dict[str, Record] = {}

    async def lane() -> None:
        for number in numbers:
            job = await one()
            ends[job["job_id"]] = job
            if number % _WATCH_EVERY == 0 or number == total:
                plan.watch(number, total)

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return ends


async def watched_again(api: Api, ends: dict[str, Record], seconds: float) -> list[Figure]:
    """Read all jobs a second time when every race is over."""
    seen = await observe_jobs(api, list(ends), seconds=seconds)
    return figures(ends, list(seen.values()))


def figures(ends: dict[str, Record], seen: list[JobObservation]) -> list[Figure]:
    """Compare two reads of the same jobs."""
    now = {one.job["job_id"]: one.job for one in seen if one.job is not None}
    lost = len(ends) - len(now)
    return [
        never("final states reverted", lost + changed({key: ends[key] for key in now}, now), len(ends)),
        never("jobs ended twice", sum(one.ended_twice for one in seen), len(ends)),
        never("jobs without an end", sum(one.finals == 0 for one in seen), len(ends)),
    ]


def both_won(plan: Plan, ends: dict[str, Record], sides: dict[str, str]) -> list[Figure]:
    """How often each side won: a race that one side never wins proves nothing."""
    wins = Counter(job["status"] for job in ends.values())
    named = [at_least(what, wins[status], 1) for status, what in sides.items()]
    return [
        at_least("races", len(ends), plan.times(RACES)),
        *named,
        all_of("races that one of the two won", sum(wins[status] for status in sides), len(ends)),
    ]
