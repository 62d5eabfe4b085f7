"""An org's failures by cause. The newest ones are looked at, and whoever asks is told whether those were all."""

import asyncio

import msgspec

from langlauf.domain.failures import Failure, FailureGroup, group_failures
from langlauf.domain.instant import Instant
from langlauf.store.protocol import OrgReads

#: So many tell what goes wrong; grouping more would keep a reader waiting.
MOST_FAILURES = 3_000
_AT_ONCE = 1_000


class FailureReport(msgspec.Struct, frozen=True):
    """The groups, the largest first, how many failures they were made of, and whether there are no more."""

    groups: list[FailureGroup]
    looked_at: int
    complete: bool

    def group(self, key: str) -> FailureGroup | None:
        """The group by that key, if it has any failures left."""
        return next((group for group in self.groups if group.key == key), None)


async def failure_report(reads: OrgReads, since: Instant) -> FailureReport:
    """Groups the failed jobs that were accepted since an instant."""
    found: list[Failure] = []
    before = None
    while len(found) < MOST_FAILURES:
        some = await reads.failures(since=since, before=before, limit=_AT_ONCE)
        found += some
        if len(some) < _AT_ONCE:
            break
        before = (some[-1].queued_at, some[-1].job_id)
    # Folding thousands of messages takes tens of milliseconds: others are served meanwhile.
    groups = await asyncio.to_thread(group_failures, found)
    return FailureReport(groups, len(found), complete=len(found) < MOST_FAILURES)
