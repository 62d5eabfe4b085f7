"""Retention: removes results, events and jobs that are older than the policy allows."""

from typing import Any

import msgspec

from langlauf.domain.result import RetentionPolicy, RetentionReport
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import RETIRED


async def apply_retention(
    store: Store, policy: RetentionPolicy, *, dry_run: bool = False, counted: bool = True
) -> RetentionReport:
    """Remove what is past its retention, or with `dry_run` only count it; a repeat removes nothing."""
    report = await store.retire(policy, dry_run=dry_run, counted=counted)
    results, events, jobs = report.results.delete_count, report.events.delete_count, report.jobs_deleted
    if not dry_run and results + events + jobs:
        for kind, count in (("results", results), ("events", events), ("jobs", jobs)):
            RETIRED.add(kind, by=count)
        log_event(LogEvent.RETENTION_RAN, results=results, events=events, jobs=jobs)
    return report


def report_json(report: RetentionReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "dry_run": report.dry_run,
        "terminal_job_count": report.terminal_job_count,
        "results": msgspec.to_builtins(report.results),
        "events": msgspec.to_builtins(report.events),
        "jobs": {"delete_count": report.jobs_deleted},
    }
