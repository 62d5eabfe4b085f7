"""Claim, renew, write, end, sweep and cancel in every order that chance finds: the store does what the contract says.

Each schedule is drawn from its seed: workers that are paused, die or write late, commits that are reported as failed
although they were made, batches, and time that passes to the microsecond around every lease and deadline. Schedule n
has the seed LANGLAUF_TEST_SEED + n, so that any one of them can be played again as the first of a run.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from langlauf.domain.attempt import Write
from langlauf.domain.event import EventType
from langlauf.store.group_commit import Recording
from langlauf.store.sqlite.snapshot import check_file
from tests.simulation.environment import Fate
from tests.simulation.mutants import ALIVE, altered, without
from tests.simulation.schedule import Run, play, shrink
from tests.simulation.trace import story
from tests.simulation.world import World
from tests.support.tiers import at_scale, choose_seed

BASE = choose_seed()
SCHEDULES = at_scale(20_000, 1_000)
CHUNK = 250
#: Enough to meet what is rare.
SAMPLE = 300


@pytest.mark.parametrize("chunk", range(SCHEDULES // CHUNK))
def test_store_and_contract_agree_on_every_schedule(chunk: int) -> None:
    """Every answer and every row is what the reference model says, and every job comes to exactly one end."""
    world = World()
    with world.pinned():
        for seed in range(BASE + chunk * CHUNK, BASE + (chunk + 1) * CHUNK):
            failure = play(world, seed)
            if failure is not None:
                pytest.fail(story(seed, shrink(world, seed, failure)))


def test_verify_finds_nothing_in_the_middle_and_at_the_end_of_a_schedule(tmp_path: Path) -> None:
    """The rules that operators run hold at any moment, not only where jobs are at rest."""
    world = World()
    path = tmp_path / "store.db"

    def verify(run: Run) -> None:
        path.write_bytes(world.connection.serialize("main"))
        found = [one for one in check_file(str(path), now=run.now) if not one.warning]
        assert found == [], f"seed {seed}"

    with world.pinned():
        for seed in range(BASE, BASE + SAMPLE // 10):
            assert play(world, seed, look=verify) is None


def _played(world: World, seed: int) -> Run:
    """The whole schedule of a seed."""
    seen: list[Run] = []
    with world.pinned():
        assert play(world, seed, look=seen.append) is None
    return seen[-1]


def test_a_seed_always_plays_the_same_schedule() -> None:
    """Whatever was played before, and whatever ids the store has drawn meanwhile."""
    world, other = World(), World()
    first = {seed: _played(world, seed).steps for seed in range(BASE, BASE + 20)}
    assert {seed: _played(other, seed).steps for seed in reversed(first)} == first
    assert len({str(steps) for steps in first.values()}) == len(first)


def _what_happened(run: Run) -> Iterator[str]:
    """The events and errors of its jobs, the fates of its commits, and which writes were taken and which refused."""
    for job in run.oracle.jobs.values():
        yield from job.log
        yield f"error {job.error_code}"
    for step, answers in zip(run.steps, run.answers, strict=True):
        yield step.fate.name
        for operation, answer in zip(step.operations, answers, strict=True):
            kind = operation.write if isinstance(operation, Recording) else operation
            yield f"{type(kind).__name__} {'taken' if answer else 'refused'}"


def test_the_schedules_get_everywhere() -> None:
    """Late writes, stale sweeps, unknown commits, every kind of end: without them agreement would mean little."""
    world = World()
    seen = Counter(what for seed in range(SAMPLE) for what in _what_happened(_played(world, seed)))
    writes = {kind.__name__ for kind in get_args(Write)} | {
        "ClaimRequest",
        "CancelRequest",
        "ListSweepable",
        "SweepOne",
    }
    wanted = {f"{kind} {how}" for kind in writes for how in ("taken", "refused")}
    wanted |= {*EventType, *Fate.__members__, "error timeout", "error timeout_max_retries", "error worker_lost"}
    assert wanted - set(seen) == set()


def test_a_counterexample_is_short_and_can_be_read() -> None:
    """What a weaker store does wrong is told in a few steps, with the seed to play it again."""
    weaker = [*without("reporting_jobs", ALIVE).edits, *without("record_progress", ALIVE).edits]
    world = World(altered(weaker))
    with world.pinned():
        seed, failure = next((seed, found) for seed in range(BASE, BASE + SCHEDULES) if (found := play(world, seed)))
        told = story(seed, shrink(world, seed, failure))
    assert f"LANGLAUF_TEST_SEED={seed}" in told
    assert "writes Progress" in told
    assert "what Progress of attempt" in told
    assert len(told.splitlines()) < 12
