"""Retention: how long records are kept, what a clean-up removed, and holds that exempt a result.

A hold belongs to a job: its results stay together, with the record that says where they came from.
"""

import msgspec

from langlauf.domain.instant import Instant


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long records are kept after a job's end, in seconds; None keeps them for ever."""

    final_results: float | None
    partial_results: float | None
    events: float | None
    jobs: float | None


class RetentionCount(msgspec.Struct, frozen=True, kw_only=True):
    """What retention removed, or would remove, of one kind of record."""

    delete_count: int
    #: None if it was not counted
    kept_count: int | None
    #: ended jobs that have such records and are old enough
    eligible_terminal: int
    #: ended jobs without a valid end time
    skipped_missing_timestamp: int | None


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run."""

    dry_run: bool
    terminal_job_count: int | None
    results: RetentionCount
    events: RetentionCount
    jobs_deleted: int


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to hold a result, or to release it. Holding a held result changes nothing."""

    org_id: str
    result_id: str
    #: False releases it
    held: bool = True
    by: str | None = None
    reason: str | None = None


class ResultGone(msgspec.Struct, frozen=True):
    """Retention removed the result before it was held."""

    job_id: str
    removed_at: Instant
