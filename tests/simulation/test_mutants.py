"""The simulation sees it: with one guard less in one statement, some schedule shows the difference."""

import pytest

from tests.simulation.guards import guards
from tests.simulation.mutants import ALONE, IN_COMPANY, MUTANTS, NO_GUARDS, SEEDS_FILE, Mutant, Redundant, kept_seeds
from tests.simulation.schedule import play
from tests.simulation.seed_search import first_of, judge_of
from tests.simulation.world import World, statements
from tests.support.tiers import ALL, at_scale, choose_seed

BASE = choose_seed()
SEEDS = kept_seeds()
#: Many times what even the rarest takes on average, which is 1,700.
MOST_SCHEDULES = 20_000
#: So many schedules must not tell a redundant guard from none.
ENOUGH = at_scale(100, 5)


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_a_store_without_this_guard_is_found_out(one: Mutant | Redundant) -> None:
    """The schedule kept for it makes it disagree with the contract; in `make test-all` another one does, too."""
    shows = judge_of(one)
    assert shows(SEEDS[one.name]), f"write {SEEDS_FILE.name} anew: python -m tests.simulation --sqlite-mutants"
    if ALL:
        found = first_of(shows, range(BASE, BASE + MOST_SCHEDULES))
        assert found is not None, f"{MOST_SCHEDULES} schedules from {BASE} on do not miss it"


@pytest.mark.parametrize("guard", IN_COMPANY, ids=lambda guard: guard.name)
def test_a_redundant_guard_is_not_missed_by_itself(guard: Redundant) -> None:
    """Where it is, its place is among those that another one stands before."""
    world = World(guard.mutant.queries())
    with world.pinned():
        told = [seed for seed in range(BASE, BASE + ENOUGH) if play(world, seed)]
    assert told == [], f"{guard.mutant.name} shows by itself: it belongs into the first table"


def test_every_kept_seed_is_of_a_mutant() -> None:
    """Nothing stays behind in the file."""
    assert set(SEEDS) == {one.name for one in MUTANTS}


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
