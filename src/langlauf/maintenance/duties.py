"""The periodic duties of maintenance: the sweep, retention, and the alarm for jobs that wait for their time."""

import asyncio
import contextlib
import logging
from typing import Any

import msgspec

from langlauf.domain.errors import StoreError
from langlauf.domain.instant import seconds_between
from langlauf.domain.read_models import SweptJob
from langlauf.domain.result import RetentionPolicy, RetentionReport
from langlauf.hints import Hints
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import RETIRED, SWEPT, count_end

# -- sweep -------------------------------------------------------------------------------------------------------------

#: Outcomes that end a job.
_ENDS = ("failed", "canceled")


async def sweep_once(store: Store, settings: Settings) -> list[SweptJob]:
    """Requeue or end the jobs of such attempts; a repeat finds nothing."""
    swept = await store.sweep(grace_seconds=settings.cancel_grace, backoff=settings.backoff)
    for one in swept:
        log_event(LogEvent.JOB_SWEPT, logging.WARNING, job_id=one.job_id, org_id=one.org_id, outcome=one.outcome)
        SWEPT.add(one.outcome)
        if one.outcome in _ENDS:
            await _count_end(store, one)
    return swept


async def _count_end(store: Store, one: SweptJob) -> None:
    """Count a job that ended without its worker; reads the job, which is rare enough."""
    with contextlib.suppress(StoreError):
        view = await store.tenant(one.org_id).job(one.job_id)
        if view is not None:
            count_end(view.job.analysis, view.job.status, view.job.error_code)


# -- retention ---------------------------------------------------------------------------------------------------------


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


# -- alarm -------------------------------------------------------------------------------------------------------------

#: The longest pause between two looks. Jobs that are accepted meanwhile, in other processes, are found by polling.
EVERY_SECONDS = 5.0


class Alarm:
    """Looks for the next time at which a job may start, and signals it then."""

    def __init__(self, store: Store, hints: Hints) -> None:
        self._store = store
        self._hints = hints
        self._rings_in: float | None = None

    async def look(self) -> None:
        """Read the next time from the store."""
        at = await self._store.next_start()
        self._rings_in = None if at is None else seconds_between(self._store.clock.now(), at)

    async def pause(self, seconds: float) -> None:
        """Wait for that time, or for so many seconds, and signal it."""
        if self._rings_in is None or self._rings_in > seconds:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(max(0.0, self._rings_in))
        self._hints.work()
        self._hints.overdue()
