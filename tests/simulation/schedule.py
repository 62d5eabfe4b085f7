"""Plays schedules: drawn from a seed step by step, judged after each, driven to the end, cut down where one fails."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langlauf.domain.attempt import ClaimRequest, Lease
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.outcome import MOST_LOST_LEASES, Completed
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.end import SweepOne
from tests.simulation.actors import Actors
from tests.simulation.disagreement import Disagreement
from tests.simulation.environment import Fate, ListSweepable, Stage, SweepAll
from tests.simulation.final_checks import judge_end, judge_state
from tests.simulation.model import views_named
from tests.simulation.oracle import Oracle
from tests.simulation.rules import ANALYSES, BACKOFF, LEASE_SECONDS, draw_rules

START: Instant = 1_770_000_000 * SECOND
#: The last digit of the seeds whose jobs wait for a time; the others are as they were before there were such jobs.
_TIMED = 9
_LONG = 60 * SECOND


class Step(NamedTuple):
    """One transaction: when, what, and what became of it."""

    at: Instant
    operations: tuple[Any, ...]
    fate: Fate = Fate.TOLD


class Failure(NamedTuple):
    """A schedule on which the store and the contract disagree: how, and at which step."""

    steps: list[Step]
    why: str

    @property
    def where(self) -> int:
        """The number of the step at which it showed."""
        return len(self.steps)


class Run:
    """One schedule on a fresh store, with its oracle."""

    def __init__(self, world: Stage, jitter: float) -> None:
        self.oracle = Oracle(jitter)
        self.steps: list[Step] = []
        self.answers: list[list[Any]] = []
        self.now = START
        self.world = world
        world.fresh(jitter)

    def step(self, step: Step) -> list[Any]:
        """Makes a step and judges its answers and what is in the store afterwards."""
        self.steps.append(step)
        self.now = step.at
        answers = self.world.transact(step.operations, step.at, step.fate)
        self.answers.append(answers)
        # Goes on after a disagreement, so that both a wrong answer and what it did to the store are told.
        found: list[str] = []
        if step.fate is not Fate.UNDONE:
            for place in self.world.order(step.operations):
                try:
                    self.oracle.judge(step.operations[place], answers[place], step.at)
                except Disagreement as why:
                    found.append(str(why))
        try:
            judge_state(self.world, self.oracle)
        except Disagreement as why:
            found.append(str(why))
        if found:
            raise Disagreement("; ".join(found))
        return answers

    def finish(self) -> None:
        """Lets every job reach its end, as any deployment with a living worker must, and judges what is left."""
        for _ in range(_MOST_ROUNDS):
            if all(job.terminal for job in self.oracle.jobs.values()):
                break
            self._finish_round()
        else:
            raise Disagreement("a job does not come to its end")
        judge_end(self.world, self.oracle)

    def _finish_round(self) -> None:
        """All leases are over: a sweep that finds them and takes them back, a claim of all, and their ends."""
        claims = self.step(Step(self.now + _LONG, (*self._last_sweep(), _CLAIM_ALL)))[-1]
        names = (f"final-{claim.lease.job_id}" for claim in claims)
        ends = (Completed(result_id=name, payload="{}", views=views_named(name)) for name in names)
        if claims:
            self.step(Step(self.now, tuple(map(Recording, (claim.lease for claim in claims), ends))))

    def _last_sweep(self) -> list[Any]:
        if self.world.sweeps_at_once:
            return [_SWEEP_ALL]
        left = [Lease(*key, job.attempt) for key, job in self.oracle.jobs.items() if job.lease]
        return [_FIND_ALL, *(SweepOne(lease=lease, grace_seconds=9.0, backoff=BACKOFF) for lease in left)]


#: A sweep makes jobs due, at once or a little later, and a claim then gets all of them.
_MOST_ROUNDS = 3
_FIND_ALL = ListSweepable(after=("", ""), limit=9, grace_seconds=9.0)
_SWEEP_ALL = SweepAll(limit=9, grace_seconds=9.0, backoff=BACKOFF)
_CLAIM_ALL = ClaimRequest(worker_id="last", slots=9, analyses=ANALYSES, lease_seconds=LEASE_SECONDS, max_running=9)


def play(world: Stage, seed: int, *, look: Callable[[Run], None] = lambda _: None) -> Failure | None:
    """Plays the schedule of a seed; None where store and contract agree all along.

    Whoever wants to may have a look when the drawn steps are made, and again when all jobs have ended.
    """
    chance = random.Random(seed)
    run = Run(world, jitter=chance.random())
    try:
        _draw_steps(run, chance, timed=seed % 10 == _TIMED)
        look(run)
        run.finish()
        look(run)
    except Disagreement as why:
        return Failure(run.steps, str(why))
    return None


def _draw_steps(run: Run, chance: random.Random, *, timed: bool) -> None:
    rules = replace(draw_rules(chance), timed=timed)
    actors = Actors(chance, rules, run.oracle, sweeps_at_once=run.world.sweeps_at_once)
    run.step(Step(START, tuple(actors.submit(START) for _ in range(chance.randint(1, 2)))))
    luck = chance.random()
    if luck < 0.3:
        # Chance alone would seldom lead to second attempts, and hardly ever to the last one that is allowed.
        _lose_workers(run, actors, 1 if luck > 0.02 else MOST_LOST_LEASES - chance.randint(0, 1))
    for _ in range(chance.randint(5, 12)):
        now = run.now + max(0, actors.wait(run.now))
        size = 1 if chance.random() < 0.75 else chance.randint(2, 4)
        luck = chance.random()
        fate = Fate.TOLD if luck < 0.82 else Fate.UNTOLD if luck < 0.94 else Fate.UNDONE
        operations = tuple(actors.operation(now) for _ in range(size))
        for operation, answer in zip(operations, run.step(Step(now, operations, fate)), strict=True):
            if fate is Fate.TOLD:
                actors.hear(operation, answer)
            else:
                actors.hear_failure(operation)


def _lose_workers(run: Run, actors: Actors, times: int) -> None:
    """Workers vanish one after another, and the sweep gives their jobs back."""
    jobs = run.oracle.jobs.values()
    for _ in range(2 * times):  # now and then a worker does not know the analysis
        if any(job.attempt == times or job.terminal for job in jobs):
            break
        request = actors.claim()
        [claims] = run.step(Step(run.now, (request,)))
        actors.hear(request, claims)
        one_by_one = not run.world.sweeps_at_once
        sweeps = tuple(actors.sweep_one(made.lease) for made in claims) if one_by_one else (actors.sweep_all(),)
        run.step(Step(run.now + round(LEASE_SECONDS * SECOND), sweeps))


def replay(world: Stage, seed: int, steps: Sequence[Step]) -> Failure | None:
    """Plays given steps, then drives to the end, with the same chance as the seed's schedule."""
    run = Run(world, jitter=random.Random(seed).random())
    try:
        for step in steps:
            run.step(step)
        run.finish()
    except Disagreement as why:
        return Failure(run.steps, str(why))
    return None


def shrink(world: Stage, seed: int, failure: Failure) -> Failure:
    """Leaves out one step after another, as long as store and contract still disagree and until nothing can go."""
    for index in reversed(range(failure.where)):
        shorter = replay(world, seed, failure.steps[:index] + failure.steps[index + 1 :])
        if shorter is not None and shorter.where < failure.where:
            return shrink(world, seed, shorter)
    return failure
