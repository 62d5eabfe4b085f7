"""The sweep: ends attempts whose worker vanished, exceeded the timeout, or did not stop them after a cancel."""

import contextlib
import logging

from langlauf.domain.errors import StoreError
from langlauf.domain.read_models import SweptJob
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import SWEPT, count_end

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
