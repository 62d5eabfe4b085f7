"""Holding a result: what is held is not removed by age, until somebody releases it.

A hold belongs to a job: its results stay together, with the record that says where they came from.
"""

import msgspec

from langlauf.domain.instant import Instant


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants a result kept, or no longer. Who holds what is held already changes nothing."""

    org_id: str
    result_id: str
    #: False releases it
    held: bool = True
    by: str | None = None
    reason: str | None = None


class ResultGone(msgspec.Struct, frozen=True):
    """Retention took the result before anybody held it."""

    job_id: str
    removed_at: Instant
