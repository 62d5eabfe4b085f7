"""`python -m tests.simulation`: plays schedules on the PostgreSQL store by the thousand, or looks for each mutant.

With `--sqlite-mutants` it looks for a schedule for each mutant of the SQLite store and keeps their seeds for the tests.

A store in memory plays twenty thousand within the suite; a database takes about a tenth of a second for each.
"""

import argparse
import json
import random
import sys

from langlauf.clock import monotonic
from tests.simulation import mutants as sqlite_mutants
from tests.simulation.postgres_mutants import ALONE
from tests.simulation.postgres_world import PostgresWorld, postgres_world
from tests.simulation.schedule import play, shrink
from tests.simulation.seed_search import first_of, judge_of
from tests.simulation.trace import story


def main() -> None:
    """Exit 1 where store and contract disagree, or where a missing guard is not seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first schedule")
    parser.add_argument("--mutants", action="store_true", help="which schedule sees each missing guard first")
    parser.add_argument("--sqlite-mutants", action="store_true", help="the same for SQLite, and keep the seeds")
    given = parser.parse_args()
    if given.sqlite_mutants:
        sys.exit(not _keep_sqlite_mutants(range(given.seed, given.seed + given.schedules)))
    with postgres_world() as world:
        right = (_mutants if given.mutants else _schedules)(world, range(given.seed, given.seed + given.schedules))
    sys.exit(not right)


def _schedules(world: PostgresWorld, seeds: range) -> bool:
    started_at, wrong = monotonic(), 0
    for seed in seeds:
        failure = play(world, seed)
        if failure is not None:
            wrong += 1
            print(story(seed, shrink(world, seed, failure)), flush=True)
    taken = 1_000 * (monotonic() - started_at) / len(seeds)
    print(f"{len(seeds)} schedules from seed {seeds.start}: {wrong} disagree; {taken:.0f} ms each")
    return wrong == 0


def _mutants(world: PostgresWorld, seeds: range) -> bool:
    unseen = 0
    for mutant in ALONE:
        with world.altered(mutant.edits):
            found = next((seed for seed in seeds if play(world, seed)), None)
        unseen += found is None
        print(f"{'unseen' if found is None else found:>10} {mutant.name}", flush=True)
    return unseen == 0


def _keep_sqlite_mutants(seeds: range) -> bool:
    found = {}
    for one in sqlite_mutants.MUTANTS:
        found[one.name] = first_of(judge_of(one), seeds)
        print(f"{found[one.name] or 'unseen':>10} {one.name}", flush=True)
    sqlite_mutants.SEEDS_FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return None not in found.values()


if __name__ == "__main__":
    main()
