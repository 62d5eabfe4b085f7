"""The deployment that a schedule plays in: times that are always the same, and limits that a seed draws."""

import random
from dataclasses import dataclass

from langlauf.domain.attempt import Backoff, JobBounds

LEASE_SECONDS = 15.0
GRACE_SECONDS = 5.0
BACKOFF = Backoff(base=1.0, cap=8.0)
ANALYSES = ("census", "survey")
MOST_JOBS = 4


@dataclass(slots=True)
class Rules:
    """The settings of one schedule's deployment."""

    orgs: tuple[str, ...]
    max_running: int
    limits: dict[str, int]
    #: what the workers take for the limit of an org: after a change of settings they do not agree for a while
    org_limits: tuple[int | None, ...]
    max_waiting_org: int
    max_waiting_all: int
    max_waiting_analysis: int | None
    bounds: JobBounds
    #: whether some jobs wait for a time, or must start by one
    timed: bool = False


def draw_rules(chance: random.Random) -> Rules:
    """Small numbers, so that limits are met."""
    return Rules(
        orgs=("org-a", "org-b")[: chance.randint(1, 2)],
        max_running=chance.randint(1, 3),
        limits={"survey": 1} if chance.random() < 0.3 else {},
        org_limits=chance.choice(((None,), (1,), (2,), (None, 1))),
        max_waiting_org=chance.randint(2, 3),
        max_waiting_all=chance.randint(2, 4),
        max_waiting_analysis=chance.choice((None, None, 1, 2)),
        bounds=_draw_bounds(chance),
    )


def _draw_bounds(chance: random.Random) -> JobBounds:
    """Mostly more than any schedule reaches. Drawn from a copy of chance, so that known seeds play what they played."""
    aside = random.Random()
    aside.setstate(chance.getstate())
    luck = aside.random()
    if luck < 0.75:
        return JobBounds()
    return JobBounds(events=aside.choice((7, 8, 9, 50)), partial_bytes=aside.choice((0, 50, 100, 10_000)))
