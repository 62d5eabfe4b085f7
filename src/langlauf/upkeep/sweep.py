"""The sweep: finds attempts whose worker vanished, let them run out of time or did not stop them when asked to."""

import logging

from langlauf.domain.views import Swept
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry import Fact, tell


async def sweep_once(store: Store, settings: Settings) -> list[Swept]:
    """Takes such jobs back; running it again finds nothing."""
    swept = await store.sweep(grace_seconds=settings.cancel_grace, backoff=settings.backoff)
    for one in swept:
        tell(Fact.JOB_SWEPT, logging.WARNING, job_id=one.job_id, org_id=one.org_id, outcome=one.outcome)
    return swept
