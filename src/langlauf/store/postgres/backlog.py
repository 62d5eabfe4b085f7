"""What metrics tell of a PostgreSQL store: all that waits and runs, and the connections of this process.

It is put together from what estimates and figures look at, so it needs no function of its own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from langlauf.domain.backlog import MOST_RETRYING, Backlog, Usage
from langlauf.domain.instant import Instant
from langlauf.domain.overview import MOST_QUEUES, Queue, Underway
from langlauf.store.group_commit import GroupCommit
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.overview import load


async def backlog(links: Links, at: Instant | None, *, orgs: bool) -> Backlog:
    """Three looks: as many rows as queues, as jobs that run, and as jobs that wait for their next attempt."""
    seen = await load(links, at)
    queues = [Queue(*row) for row in await links.rows("all_queues", MOST_QUEUES)]
    underway = [Underway(*row) for row in await links.rows("all_underway", MOST_RETRYING)]
    waiting, org_waiting = Counter[str](), Counter[str]()
    for lane in seen.lanes:
        waiting[lane.analysis] += lane.waiting
        org_waiting[lane.org_id] += lane.waiting
    leases = [job.lease_until for job in underway if job.lease_until is not None]
    return Backlog(
        seen_at=seen.seen_at,
        waiting=waiting,
        running=Counter(run.analysis for run in seen.runs),
        retrying=len(underway) - len(leases),
        oldest_waiting_at=min((queue.oldest_at for queue in queues if queue.oldest_at is not None), default=None),
        oldest_attempt_at=min((run.started_at for run in seen.runs), default=None),
        overdue=sum(until <= seen.seen_at for until in leases),
        org_waiting=org_waiting if orgs else {},
        org_running=Counter(run.org_id for run in seen.runs) if orgs else {},
    )


def usage(queues: Iterable[GroupCommit[Any, Any]], links: Sequence[Link]) -> Usage:
    """What the queues hold, and how many connections are open and in use."""
    return Usage(
        kind="postgresql",
        queues={queue.queue: queue.waiting for queue in queues},
        connections={"open": sum(link.open for link in links), "busy": sum(link.busy for link in links)},
    )
