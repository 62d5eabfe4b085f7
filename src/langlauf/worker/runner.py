"""Runs one attempt from its claim to its written end."""

import asyncio
import logging
from typing import Any

import msgspec

from langlauf.analysis.registry import Analysis
from langlauf.clock import Clock, draw, monotonic
from langlauf.domain.errors import PermanentError, StoreError, StoreUnavailable
from langlauf.domain.outcome import Canceled, Crashed, Failed, Failure, Released, Retry, after_failure, after_timeout
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.telemetry.tracing import TraceSpan
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.attempt_store import WorkStore
from langlauf.worker.coroutines import CoroutineExecution
from langlauf.worker.counting import AttemptEnd, count_end, count_loss, count_start
from langlauf.worker.execution import Ended, Execution
from langlauf.worker.failure import failure_of
from langlauf.worker.faults import injected
from langlauf.worker.processes.calling import ProcessExecution

_WRITE_AGAIN_SECONDS = 0.5
#: What is left to say where the store refuses the end itself.
_UNWRITABLE = Failed(code="result_unstorable", message="The store refused how the attempt ended.", retryable=False)


class Runner:
    """Executes functions, decides how their attempts ended, and writes it."""

    def __init__(self, store: WorkStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def run(self, analysis: Analysis, attempt: RunningAttempt) -> None:
        """Runs the function and writes the end of the attempt. Never raises."""
        with attempt.traced(analysis=analysis.name) as span:
            await self._run(analysis, attempt, span)

    async def _run(self, analysis: Analysis, attempt: RunningAttempt, span: TraceSpan) -> None:
        began = monotonic()
        count_start(analysis.name, attempt, began)
        log_event(LogEvent.ATTEMPT_STARTED, level=logging.DEBUG, analysis=analysis.name, **attempt.facts)
        try:
            end = await self._execute(analysis, attempt)
        except Exception as error:  # noqa: BLE001 - however it ended, the job must be told so
            log_event(LogEvent.ATTEMPT_UNWRITTEN, logging.ERROR, error=error, **attempt.facts)
            end = self._decide(failure_of(error, ()), attempt)
        written = None if end is None else await self._write_end(attempt, end)
        attempt.close()
        if written is None:
            span.fail("lease_lost")
            count_loss(analysis.name)
            log_event(LogEvent.ATTEMPT_LOST, logging.WARNING, **attempt.facts)
            return
        seconds = monotonic() - began
        outcome = type(written).__name__.lower()
        span.set_attributes(outcome=outcome)
        if isinstance(written, Failed | Retry):
            span.fail(written.code)
        if isinstance(written, Crashed):
            log_event(LogEvent.PROCESS_DIED, logging.WARNING, reason=written.how, **attempt.facts)
        log_event(
            LogEvent.ATTEMPT_ENDED, analysis=analysis.name, outcome=outcome, seconds=round(seconds, 3), **attempt.facts
        )
        await count_end(analysis.name, attempt, written, seconds, self._store)

    async def _execute(self, analysis: Analysis, attempt: RunningAttempt) -> AttemptEnd | None:
        try:
            values = _input(analysis, attempt.claim.payload)
        except PermanentError as error:
            return self._decide(failure_of(error, ()), attempt)
        if self._settings.fault_injection and (forced := injected(values)):
            return forced
        execution = self._start(analysis, attempt, values)
        awaited: set[asyncio.Future[Any]] = {execution.ended, attempt.stop_wish}
        await asyncio.wait(awaited, timeout=attempt.claim.timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if execution.ended.done():
            return self._decide(execution.ended.result(), attempt)
        why = attempt.stop_wish.result() if attempt.stop_wish.done() else Stop.TIMEOUT
        await execution.stop(why)
        return self._end_after_stop(why, attempt)

    def _start(self, analysis: Analysis, attempt: RunningAttempt, values: dict[str, Any]) -> Execution:
        if analysis.plain:
            return ProcessExecution(analysis, attempt, self._settings.cancel_grace)
        return CoroutineExecution(analysis, attempt, values, self._settings.cancel_grace)

    def _decide(self, ended: Ended, attempt: RunningAttempt) -> AttemptEnd | None:
        if not isinstance(ended, Failure):
            return ended
        claim = attempt.claim
        delay = self._settings.backoff.delay(claim.retry_count, draw())
        return after_failure(ended, claim.retry_count, claim.max_retries, delay)

    def _end_after_stop(self, why: Stop, attempt: RunningAttempt) -> AttemptEnd | None:
        claim = attempt.claim
        if why is Stop.LOST:
            return None
        if why is Stop.RELEASE:
            return Released()
        if why is Stop.CANCEL:
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
        """Writes the end, again and again while the store is away and the lease lives; the end that was written."""
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


def _input(analysis: Analysis, payload: str) -> dict[str, Any]:
    """The stored input; it was checked when it came, but the analysis may have changed since."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(payload, type=analysis.input_type))
    except msgspec.ValidationError as error:
        raise PermanentError(f"The stored input no longer fits the analysis: {error}") from error
