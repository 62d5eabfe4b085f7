"""The sweep: finds attempts whose worker vanished, let them run out of time or did not stop them when asked to."""

import contextlib
import logging

from langlauf.domain.errors import StoreError
from langlauf.domain.read_models import SweptJob
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import SWEPT, count_end

#: Outcomes with which a job is over.
_ENDS = ("failed", "canceled")


async def sweep_once(store: Store, settings: Settings) -> list[SweptJob]:
    """Takes such jobs back; running it again finds nothing."""
    swept = await store.sweep(grace_seconds=settings.cancel_grace, backoff=settings.backoff)
    for one in swept:
        log_event(LogEvent.JOB_SWEPT, logging.WARNING, job_id=one.job_id, org_id=one.org_id, outcome=one.outcome)
        SWEPT.add(one.outcome)
        if one.outcome in _ENDS:
            await _count_end(store, one)
    return swept


async def _count_end(store: Store, one: SweptJob) -> None:
    """A job that ended without its worker: what it was and why is looked up, which is not often."""
    with contextlib.suppress(StoreError):
        view = await store.tenant(one.org_id).job(one.job_id)
        if view is not None:
            count_end(view.job.analysis, view.job.status, view.job.error_code)
