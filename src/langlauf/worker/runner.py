"""Runs one attempt from its claim to its written end, and counts it."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from langlauf.analysis.registry import Analysis
from langlauf.clock import Clock, draw, monotonic, new_id
from langlauf.domain.attempt import Lease
from langlauf.domain.errors import (
    PermanentError,
    RetryHint,
    StoreError,
    StoreUnavailable,
    error_saying,
    sentence_meta,
    sentence_text,
)
from langlauf.domain.instant import seconds_between
from langlauf.domain.outcome import (
    Canceled,
    Completed,
    Crashed,
    Failed,
    Failure,
    Released,
    Retry,
    after_failure,
    after_timeout,
)
from langlauf.domain.state import Status
from langlauf.settings import Settings
from langlauf.telemetry.log import TRACE, LogEvent, log_event, log_store_failure
from langlauf.telemetry.metrics import ATTEMPTS, DEATHS, ENDS, RUN, STARTS, TO_START, WAIT, code_label
from langlauf.telemetry.tracing import TraceSpan
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.attempt_store import AttemptStore
from langlauf.worker.execution import CoroutineExecution, Execution, ExecutionEnd, ProcessExecution
from langlauf.worker.failure import failure_of

AttemptEnd = Completed | Failed | Retry | Crashed | Canceled | Released

_WRITE_AGAIN_SECONDS = 0.5
#: The end of an attempt whose own end the store refuses.
_UNWRITABLE = Failed(
    code="result_unstorable",
    message=sentence_text("end_refused"),
    retryable=False,
    meta=sentence_meta("end_refused"),
)
_INJECTED_FAILURES: Mapping[str, tuple[str, RetryHint]] = {
    "__timeout__": ("timeout", "retry_with_backoff"),
    "__internal__": ("internal", "retry_with_backoff"),
    "__address_intel__": ("address_intel", "check_input_and_retry"),
}
_INJECTED_SUCCESS = "__ok__"


class Runner:
    """Executes functions, decides the outcome of their attempts, and writes it."""

    def __init__(self, store: AttemptStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def run(self, analysis: Analysis, attempt: RunningAttempt) -> bool:
        """Run the function, write the end of the attempt, and return whether that was possible. Never raises."""
        with attempt.traced(analysis=analysis.name) as span:
            return await self._run(analysis, attempt, span)

    async def _run(self, analysis: Analysis, attempt: RunningAttempt, span: TraceSpan) -> bool:
        began = monotonic()
        count_start(analysis.name, attempt, began)
        log_event(LogEvent.ATTEMPT_STARTED, logging.DEBUG, about=attempt, analysis=analysis.name)
        try:
            end = await self._execute(analysis, attempt)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the end must be written
            log_event(LogEvent.ATTEMPT_UNWRITTEN, logging.ERROR, error=error, about=attempt)
            end = self._decide(failure_of(error, ()), attempt)
        written = None if end is None else await self._write_end(attempt, end)
        attempt.close()
        if written is None:
            span.fail("lease_lost")
            count_loss(analysis.name)
            log_event(LogEvent.ATTEMPT_LOST, logging.WARNING, about=attempt)
            return False
        seconds = monotonic() - began
        outcome = type(written).__name__.lower()
        span.set_attributes(outcome=outcome)
        if isinstance(written, Failed | Retry):
            span.fail(written.code)
            _log_failure(analysis.name, attempt, written)
        if isinstance(written, Crashed):
            log_event(LogEvent.PROCESS_DIED, logging.WARNING, reason=written.how, about=attempt)
        log_event(
            LogEvent.ATTEMPT_ENDED, about=attempt, analysis=analysis.name, outcome=outcome, seconds=round(seconds, 3)
        )
        count_end(analysis.name, written, seconds)
        if isinstance(written, Retry | Released | Crashed):
            await _count_if_ended(analysis.name, attempt.lease, self._store)
        return True

    async def _execute(self, analysis: Analysis, attempt: RunningAttempt) -> AttemptEnd | None:
        try:
            values = _input(analysis, attempt.claim.payload)
        except PermanentError as error:
            return self._decide(failure_of(error, ()), attempt)
        if self._settings.fault_injection and (forced := injected_outcome(values)):
            return forced
        execution = self._start(analysis, attempt, values)
        execution.ended.add_done_callback(attempt.settle)
        timer = asyncio.get_running_loop().call_later(attempt.claim.timeout_seconds, attempt.settle)
        try:
            await attempt.settled
        finally:
            timer.cancel()
        if execution.ended.done():
            return self._decide(execution.ended.result(), attempt)
        why = attempt.stop_reason or StopReason.TIMEOUT
        await execution.stop(why)
        return self._end_after_stop(why, attempt)

    def _start(self, analysis: Analysis, attempt: RunningAttempt, values: dict[str, Any]) -> Execution:
        if analysis.plain:
            return ProcessExecution(analysis, attempt, self._settings.cancel_grace)
        return CoroutineExecution(analysis, attempt, values, self._settings.cancel_grace)

    def _decide(self, ended: ExecutionEnd, attempt: RunningAttempt) -> AttemptEnd | None:
        if not isinstance(ended, Failure):
            return ended
        claim = attempt.claim
        delay = self._settings.backoff.delay(claim.retry_count, draw())
        return after_failure(ended, claim.retry_count, claim.max_retries, delay)

    def _end_after_stop(self, why: StopReason, attempt: RunningAttempt) -> AttemptEnd | None:
        claim = attempt.claim
        if why is StopReason.LOST:
            return None
        if why is StopReason.RELEASE:
            return Released()
        if why is StopReason.CANCEL:
            return Canceled(by="worker", reason=attempt.cancel_reason or "stopped by its worker")
        return after_timeout(
            limit_seconds=claim.timeout_seconds,
            started_at=claim.started_at,
            detected_at=self._clock.now(),
            retry_count=claim.retry_count,
            max_retries=claim.max_retries,
            delay_seconds=self._settings.backoff.delay(claim.retry_count, draw()),
        )

    async def _write_end(self, attempt: RunningAttempt, end: AttemptEnd) -> AttemptEnd | None:
        """Write the end, with retries while the lease is valid; return the end that was written, or None."""
        while not attempt.lease_seems_over:
            try:
                return end if await self._store.record(attempt.lease, end) else None
            except StoreUnavailable as error:
                log_store_failure(error, job_id=attempt.job_id)
                await asyncio.sleep(_WRITE_AGAIN_SECONDS)
            except StoreError as error:
                log_event(LogEvent.ATTEMPT_UNWRITTEN, logging.ERROR, job_id=attempt.job_id, reason=str(error))
                if end == _UNWRITABLE:
                    return None
                end = _UNWRITABLE
        return None


def _log_failure(analysis: str, attempt: RunningAttempt, end: Failed | Retry) -> None:
    trace = end.meta.get(TRACE)
    fields = {"analysis": analysis, **attempt.facts, "code": end.code, "message": end.message}
    log_event(LogEvent.ATTEMPT_FAILED, logging.WARNING, **fields, **({TRACE: trace} if trace else {}))


def _input(analysis: Analysis, payload: str) -> dict[str, Any]:
    """Decode the stored input; it was valid at submission, but the analysis may have changed since."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(payload, type=analysis.input_type))
    except msgspec.ValidationError as error:
        raise error_saying(PermanentError, "input_outdated", detail=str(error)) from error


def count_start(analysis: str, attempt: RunningAttempt, began: float) -> None:
    """Count the start of an attempt, and how long its job waited for the first one."""
    claim = attempt.claim
    STARTS.add(analysis)
    TO_START.observe(began - attempt.asked_at)
    if attempt.number == 1 and claim.queued_at is not None:
        WAIT.observe(max(0.0, seconds_between(claim.queued_at, claim.started_at)), analysis)


def count_loss(analysis: str) -> None:
    """Count an attempt that lost its lease."""
    ATTEMPTS.add(analysis, "lost")


def count_end(analysis: str, end: AttemptEnd, seconds: float) -> None:
    """Count the end of an attempt, and of its job if that certainly ended with it."""
    ATTEMPTS.add(analysis, type(end).__name__.lower())
    RUN.observe(seconds, analysis)
    match end:
        case Completed():
            ENDS.add(analysis, Status.COMPLETED, "")
        case Failed(code=code):
            ENDS.add(analysis, Status.FAILED, code_label(code))
        case Canceled():
            ENDS.add(analysis, Status.CANCELED, "")
        case Crashed():
            DEATHS.add(by=end.deaths)


async def count_crash(analysis: str, lease: Lease, end: Crashed, store: AttemptStore) -> None:
    """Count an attempt that ended with its whole worker."""
    ATTEMPTS.add(analysis, "crashed" if end.own else "lost")
    if end.own:
        DEATHS.add(by=end.deaths)
    await _count_if_ended(analysis, lease, store)


async def _count_if_ended(analysis: str, lease: Lease, store: AttemptStore) -> None:
    """Count the end of the job, if the store ended it because it was canceled or died too often."""
    with contextlib.suppress(StoreError):
        view = await store.tenant(lease.org_id).job(lease.job_id)
        if view is not None and view.job.terminal and view.job.attempt == lease.attempt:
            ENDS.add(analysis, view.job.status, code_label(view.job.error_code))


def injected_outcome(values: Mapping[str, Any]) -> Completed | Failed | None:
    """Fault injection for end-to-end tests: return the outcome that the query names, or None."""
    query = values.get("query")
    if query == _INJECTED_SUCCESS:
        payload = msgspec.json.encode({"forced": True, "query": query}).decode()
        return Completed(result_id=new_id(), payload=payload)
    if not isinstance(query, str) or query not in _INJECTED_FAILURES:
        return None
    code, hint = _INJECTED_FAILURES[query]
    return Failed(
        code=code,
        message=f"forced {code} by fault injection",
        retryable=hint == "retry_with_backoff",
        hint=hint,
    )
