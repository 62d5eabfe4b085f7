"""What is counted of attempts: their starts, how they ended, and the jobs that ended with them."""

import contextlib

from langlauf.domain.attempt import Lease
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import seconds_between
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Released, Retry
from langlauf.domain.state import Status
from langlauf.telemetry.metrics import ATTEMPTS, DEATHS, ENDS, RUN, STARTS, TO_START, WAIT, code_label
from langlauf.worker.attempt import RunningAttempt
from langlauf.worker.attempt_store import WorkStore

AttemptEnd = Completed | Failed | Retry | Crashed | Canceled | Released


def count_start(analysis: str, attempt: RunningAttempt, began: float) -> None:
    """An attempt begins; before the first one its job has waited."""
    claim = attempt.claim
    STARTS.add(analysis)
    TO_START.observe(began - attempt.asked_at)
    if attempt.number == 1 and claim.queued_at is not None:
        WAIT.observe(max(0.0, seconds_between(claim.queued_at, claim.started_at)), analysis)


def count_loss(analysis: str) -> None:
    """An attempt ends without a word: its lease is gone."""
    ATTEMPTS.add(analysis, "lost")


async def count_end(analysis: str, attempt: RunningAttempt, end: AttemptEnd, seconds: float, store: WorkStore) -> None:
    """An attempt ended as it says, and with it perhaps its job."""
    ATTEMPTS.add(analysis, type(end).__name__.lower())
    RUN.observe(seconds, analysis)
    match end:
        case Completed():
            ENDS.add(analysis, Status.COMPLETED, "")
        case Failed(code=code):
            ENDS.add(analysis, Status.FAILED, code_label(code))
        case Canceled():
            ENDS.add(analysis, Status.CANCELED, "")
        case Retry() | Released() | Crashed():
            if isinstance(end, Crashed):
                DEATHS.add(by=end.deaths)
            await _count_decided(analysis, attempt.lease, store)


async def count_crash(analysis: str, lease: Lease, end: Crashed, store: WorkStore) -> None:
    """An attempt ended with its whole worker."""
    ATTEMPTS.add(analysis, "crashed" if end.own else "lost")
    if end.own:
        DEATHS.add(by=end.deaths)
    await _count_decided(analysis, lease, store)


async def _count_decided(analysis: str, lease: Lease, store: WorkStore) -> None:
    """Whether such a job goes on is decided by the store: it does not where it was canceled, or died too often."""
    with contextlib.suppress(StoreError):
        view = await store.tenant(lease.org_id).job(lease.job_id)
        if view is not None and view.job.terminal and view.job.attempt == lease.attempt:
            ENDS.add(analysis, view.job.status, code_label(view.job.error_code))
