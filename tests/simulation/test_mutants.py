"""The simulation sees it: with one guard less in one statement, some schedule shows the difference."""

import pytest

from tests.simulation.guards import guards
from tests.simulation.mutants import ALONE, IN_COMPANY, NO_GUARDS, Mutant, Redundant
from tests.simulation.schedule import Failure, play
from tests.simulation.seeds import BASE
from tests.simulation.world import World, statements

#: Many times what even the rarest takes on average.
MOST_SCHEDULES = 5_000
#: So many schedules must not tell a redundant guard from none.
ENOUGH = 100


@pytest.mark.parametrize("mutant", ALONE, ids=lambda mutant: mutant.name)
def test_a_store_without_this_guard_is_found_out(mutant: Mutant) -> None:
    """Some schedule makes it disagree with the contract."""
    world = World(mutant.queries())
    with world.pinned():
        found = next((seed for seed in range(BASE, BASE + MOST_SCHEDULES) if play(world, seed)), None)
    assert found is not None, f"{MOST_SCHEDULES} schedules from LANGLAUF_TEST_SEED={BASE} do not miss it"
    print(f"found by schedule {found - BASE + 1}, seed {found}")


@pytest.mark.parametrize("guard", IN_COMPANY, ids=lambda guard: f"{guard.mutant.name}, {guard.company.name}")
def test_a_redundant_guard_holds_where_the_other_one_fails(guard: Redundant) -> None:
    """Alone it is not missed; without its company too, the store fails in a way that the company alone would not."""
    weaker, weakest, other = World(guard.mutant.queries()), World(guard.queries()), World(guard.company.queries())
    with weaker.pinned():
        told = [seed for seed in range(BASE, BASE + ENOUGH) if play(weaker, seed)]
    assert told == [], f"{guard.mutant.name} shows by itself: it belongs into the first table"

    def differs(seed: int) -> bool:
        with weakest.pinned():
            both = play(weakest, seed)
        return both is not None and _evidence(both) != _evidence(_play_on(other, seed))

    found = next((seed for seed in range(BASE, BASE + MOST_SCHEDULES) if differs(seed)), None)
    assert found is not None, f"{MOST_SCHEDULES} schedules from LANGLAUF_TEST_SEED={BASE} do not miss it: {guard.why}"
    print(f"found by schedule {found - BASE + 1}, seed {found}")


def _play_on(world: World, seed: int) -> Failure | None:
    with world.pinned():
        return play(world, seed)


def _evidence(failure: Failure | None) -> tuple[int, str] | None:
    return failure and (failure.where, failure.why)


def test_every_guard_of_every_statement_stands_in_a_table() -> None:
    """A new statement, or a new condition in an old one, cannot be forgotten; nor can a table name what is gone."""
    there = {(name, guard) for name, sql in statements().items() for guard in guards(sql)}
    broken = {mutant.guard for mutant in ALONE if mutant.guard} | {one.mutant.guard for one in IN_COMPANY}
    assert there - broken - set(NO_GUARDS) == set()
    assert (broken | set(NO_GUARDS)) - there == set()
    assert broken & set(NO_GUARDS) == set()


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT a FROM t", []),
        ("UPDATE t SET a = 1 WHERE org_id = :org_id AND job_id = :job_id", []),
        ("-- WHERE it is\nDELETE FROM t WHERE t.org_id = :org_id AND n = :n\n  AND m > :m", ["n = :n", "m > :m"]),
        ("UPDATE t SET a = (SELECT b FROM s WHERE c = 1) WHERE (x OR (y AND z)) RETURNING a", ["(x OR (y AND z))"]),
        (
            "INSERT INTO t SELECT 1 FROM s WHERE {fence} AND u IN ('a', 'b') ON CONFLICT DO NOTHING",
            ["{fence}", "u IN ('a', 'b')"],
        ),
        ("SELECT a FROM t WHERE a > 1 ORDER BY a LIMIT 3", ["a > 1"]),
    ],
)
def test_guards_are_found_in_the_text(sql: str, found: list[str]) -> None:
    """Conditions of the statement itself, not of its subqueries, and not which row is meant."""
    assert guards(sql) == found
