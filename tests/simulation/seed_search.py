"""Schedules that show what a weaker SQLite store does wrong."""

from collections.abc import Callable, Iterable

from tests.simulation.mutants import Mutant, Redundant
from tests.simulation.schedule import Failure, play
from tests.simulation.world import World

#: Whether the schedule of a seed shows that a guard is missing.
Shows = Callable[[int], bool]


def judge_of(one: Mutant | Redundant) -> Shows:
    """Return what tells whether a schedule shows a mutant.

    A redundant guard shows where the store without both guards fails in another way than without its company alone.
    """
    weaker = World(one.queries())
    other = World(one.company.queries()) if isinstance(one, Redundant) else None

    def shows(seed: int) -> bool:
        found = _played(weaker, seed)
        return found is not None and (other is None or _evidence(found) != _evidence(_played(other, seed)))

    return shows


def first_of(shows: Shows, seeds: Iterable[int]) -> int | None:
    """Return the first seed whose schedule shows it."""
    return next((seed for seed in seeds if shows(seed)), None)


def _played(world: World, seed: int) -> Failure | None:
    with world.pinned():
        return play(world, seed)


def _evidence(failure: Failure | None) -> tuple[int, str] | None:
    return failure and (failure.where, failure.why)
