"""What is looked at over all orgs: how much there is to do, what runs took, and how followed jobs are doing."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.eta import Run
from langlauf.domain.instant import Instant
from langlauf.domain.overview import MOST_QUEUES, Ended, Overview, Queue, Underway, overview_of
from langlauf.domain.result import KeptPayloads
from langlauf.domain.views import Depth, Pulse
from langlauf.domain.waiting import Lane, Load
from langlauf.store.migrate import migrations_in
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.migrating import PACKAGE

#: A job by its org and its id.
Named = tuple[str, str]
_JOBS_AT_ONCE = 1_000


async def depth(links: Links, at: Instant | None) -> Depth:
    """How many jobs wait and run."""
    [row] = await links.rows("depth", at)
    return Depth(*row)


async def paces(links: Links) -> dict[str, float]:
    """The mean of recent runs, by analysis."""
    return {analysis: seconds for analysis, seconds in await links.rows("paces")}  # noqa: C416 - a row is no pair


async def load(links: Links, at: Instant | None) -> Load:
    """All that waits and runs."""
    [(seen_at, virtual_now, lanes, runs)] = await links.rows("load", at)
    return Load(seen_at, [Lane(*row) for row in lanes], [Run(*row) for row in runs], await paces(links), virtual_now)


async def look(
    rows: Callable[..., Awaitable[list[Any]]], whose: Literal["read", "all"], since: Instant, most: int
) -> Overview:
    """Looks over the jobs of one org, by the functions for that, or of all; each a walk along an index."""
    return overview_of(
        [Ended(*row) for row in await rows(f"{whose}_ended", since, most + 1)],
        [queued_at for (queued_at,) in await rows(f"{whose}_queued", since, most + 1)],
        [Queue(*row) for row in await rows(f"{whose}_queues", MOST_QUEUES + 1)],
        [Underway(*row) for row in await rows(f"{whose}_underway", most + 1)],
        most,
    )


async def pulses(links: Links, jobs: Sequence[Named]) -> dict[Named, Pulse]:
    """How these jobs are doing."""
    found: dict[Named, Pulse] = {}
    for orgs, ids in _in_parts(jobs):
        rows = await links.rows("pulses", orgs, ids)
        found |= {(org_id, job_id): Pulse(*rest) for org_id, job_id, *rest in rows}
    return found


async def org_pulses(links: Links, org_ids: Sequence[str]) -> dict[str, str]:
    """A mark of each org that any change of its jobs changes."""
    return {org_id: mark for org_id, mark in await links.rows("org_pulses", list(org_ids))}  # noqa: C416 - as above


async def kept_payloads(links: Links, jobs: Sequence[Named]) -> dict[Named, KeptPayloads]:
    """What these jobs still name outside of the database."""
    found: dict[Named, KeptPayloads] = {}
    for orgs, ids in _in_parts(jobs):
        rows = await links.rows("kept_payloads", orgs, ids)
        found |= {(org_id, job_id): KeptPayloads(ended, frozenset(refs)) for org_id, job_id, ended, refs in rows}
    return found


async def check(links: Links) -> None:
    """Raises `StoreUnavailable` unless the database answers and its schema is this program's."""
    known = len(migrations_in(PACKAGE))
    try:
        found = await links.call("schema_number")
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreUnavailable(f"the database has no schema that is known: {error}") from error
    if found != known:
        raise StoreUnavailable(f"the store has schema {found}, this program needs {known}")


def _in_parts(jobs: Sequence[Named]) -> Iterator[tuple[list[str], list[str]]]:
    """Columns of so many at once: other readers have their turn in between."""
    for start in range(0, len(jobs), _JOBS_AT_ONCE):
        part = jobs[start : start + _JOBS_AT_ONCE]
        yield [org_id for org_id, _ in part], [job_id for _, job_id in part]
