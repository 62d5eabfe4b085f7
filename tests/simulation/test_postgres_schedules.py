"""The schedules of the simulation on the PostgreSQL store: a share of what `python -m tests.simulation` plays."""

from collections.abc import Iterator

import pytest

from langlauf.store.postgres.snapshot import check_database
from tests.simulation.postgres_mutants import ALONE, FUNCTIONS, UNSEEN, Mutant, unnamed
from tests.simulation.postgres_world import PostgresWorld, postgres_world
from tests.simulation.schedule import Run, play, shrink
from tests.simulation.trace import story
from tests.support.tiers import at_scale, choose_seed

BASE = choose_seed()
SCHEDULES = at_scale(200, 20)
CHUNK = 10
#: Where a mutant is not seen by its own seed any more, so many others are tried.
MOST_SCHEDULES = 500


@pytest.fixture(scope="module")
def world() -> Iterator[PostgresWorld]:
    """One database for all."""
    with postgres_world() as made:
        yield made


@pytest.mark.parametrize("chunk", range(SCHEDULES // CHUNK))
def test_store_and_contract_agree_on_every_schedule(world: PostgresWorld, chunk: int) -> None:
    """Every answer and every row is what the reference model says, and every job comes to exactly one end."""
    for seed in range(BASE + chunk * CHUNK, BASE + (chunk + 1) * CHUNK):
        failure = play(world, seed)
        if failure is not None:
            pytest.fail(story(seed, shrink(world, seed, failure)))


def test_verify_finds_nothing_in_the_middle_and_at_the_end_of_a_schedule(world: PostgresWorld) -> None:
    """The rules that operators run hold at any moment, not only where jobs are at rest."""

    def verify(run: Run) -> None:
        found = [one for one in check_database(world.url, now=run.now) if not one.warning]
        assert found == [], f"seed {seed}"

    for seed in range(BASE, BASE + 2):
        assert play(world, seed, look=verify) is None


def test_a_seed_always_plays_the_same_schedule(world: PostgresWorld) -> None:
    """Whatever was played before, and whatever ids the database has drawn meanwhile."""

    def steps(seed: int) -> str:
        seen: list[Run] = []
        assert play(world, seed, look=seen.append) is None
        return str(seen[-1].steps)

    first = {seed: steps(seed) for seed in range(BASE, BASE + 3)}
    assert {seed: steps(seed) for seed in reversed(first)} == first
    assert len(set(first.values())) == len(first)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1034, id="a cancel that ends a crash does not count it"),
        pytest.param(1037, id="one of a batch that refuses duplicates sees those before it that allow them"),
        pytest.param(50484, id="one that finds the queue of its analysis full takes no place in that of its org"),
        pytest.param(20771, id="jobs of one moment in two lanes go in the order of their ids"),
    ],
)
def test_what_was_wrong_once_stays_right(world: PostgresWorld, seed: int) -> None:
    """Schedules that found something."""
    assert play(world, seed) is None


@pytest.mark.parametrize("mutant", ALONE, ids=lambda mutant: mutant.name)
def test_a_store_without_this_guard_is_found_out(world: PostgresWorld, mutant: Mutant) -> None:
    """Some schedule makes it disagree with the contract."""
    with world.altered(mutant.edits):
        seeds = (mutant.seed, *range(BASE, BASE + MOST_SCHEDULES))
        assert any(play(world, seed) for seed in seeds), f"no schedule from LANGLAUF_TEST_SEED={BASE} on misses it"


def test_every_guard_of_every_function_stands_in_a_table(world: PostgresWorld) -> None:
    """A new function or condition cannot be forgotten; nor can a table name what is gone."""
    named = {edit.function for mutant in ALONE for edit in mutant.edits} | {name for name, _ in UNSEEN}
    assert named == set(FUNCTIONS)
    assert {name: found for name in FUNCTIONS if (found := list(unnamed(name, world.definition(name))))} == {}
