"""Runs one attempt from its claim to its written end."""

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from langlauf.analysis.handle import Job
from langlauf.analysis.payload import encoded
from langlauf.analysis.registry import Analysis
from langlauf.clock import Clock, draw, new_id
from langlauf.domain.errors import PermanentError, StaleAttempt, StoreError, StoreUnavailable
from langlauf.domain.outcome import (
    Canceled,
    Completed,
    Failed,
    Released,
    Retry,
    after_failure,
    after_timeout,
    classify,
)
from langlauf.domain.redact import clean_text
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry import Fact, tell
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.containment import INSIDE_ATTEMPT, contained
from langlauf.worker.faults import injected

AttemptEnd = Completed | Failed | Retry | Canceled | Released
_LONGEST_TRACE = 8_000
_WRITE_AGAIN_SECONDS = 0.5
#: The grace of a shutdown is over by then: enough for a coroutine that only needs to hear of it.
_RELEASE_GRACE = 0.2
#: What is left to say where the store refuses the end itself.
_UNWRITABLE = Failed(code="result_unstorable", message="The store refused how the attempt ended.", retryable=False)


class Runner:
    """Executes coroutine functions on the event loop."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def run(self, analysis: Analysis, attempt: RunningAttempt) -> None:
        """Runs the function, decides how the attempt ended and writes it. Never raises."""
        began = time.monotonic()
        ids: dict[str, Any] = {"job_id": attempt.job_id, "org_id": attempt.org_id, "attempt": attempt.number}
        tell(Fact.ATTEMPT_STARTED, level=logging.DEBUG, analysis=analysis.name, **ids)
        try:
            end = await self._execute(analysis, attempt)
        except Exception as error:  # noqa: BLE001 - however it ended, the job must be told so
            tell(Fact.ATTEMPT_UNWRITTEN, logging.ERROR, error=error, **ids)
            end = _UNWRITABLE
        if end is None or not await self._write_end(attempt, end):
            tell(Fact.ATTEMPT_LOST, logging.WARNING, **ids)
            return
        seconds = round(time.monotonic() - began, 3)
        tell(Fact.ATTEMPT_ENDED, analysis=analysis.name, outcome=type(end).__name__.lower(), seconds=seconds, **ids)

    async def _execute(self, analysis: Analysis, attempt: RunningAttempt) -> AttemptEnd | None:
        task = asyncio.create_task(self._call(analysis, attempt), name=f"job {attempt.job_id}")
        awaited: set[asyncio.Future[Any]] = {task, attempt.stop_wish}
        await asyncio.wait(
            awaited,
            timeout=attempt.claim.timeout_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if task.done():
            return self._end_of(task, analysis, attempt)
        why = attempt.stop_wish.result() if attempt.stop_wish.done() else Stop.TIMEOUT
        await self._stop(task, attempt, _RELEASE_GRACE if why is Stop.RELEASE else self._settings.cancel_grace)
        return self._end_after_stop(why, attempt)

    async def _call(self, analysis: Analysis, attempt: RunningAttempt) -> Completed | Failed:
        values = _input(analysis, attempt.claim.payload)
        if self._settings.fault_injection and (forced := injected(values)):
            return forced
        INSIDE_ATTEMPT.set(True)
        result = await contained(_as_coroutine(analysis.function(Job(attempt), **values)))
        limit = self._settings.max_result
        summary = result.get("summary") if isinstance(result, Mapping) else None
        return Completed(
            result_id=new_id(),
            payload=await encoded(result, limit),
            summary=await encoded(summary, limit) if isinstance(summary, Mapping) else None,
        )

    async def _stop(self, task: asyncio.Task[Completed | Failed], attempt: RunningAttempt, grace: float) -> None:
        """Cancels the coroutine; one that does not end within the grace is left alone, fenced by its lost lease."""
        task.cancel()
        await asyncio.wait({task}, timeout=grace)
        if not task.done():
            tell(Fact.ATTEMPT_ABANDONED, logging.ERROR, job_id=attempt.job_id, attempt=attempt.number)
            task.add_done_callback(_forget)
        else:
            _forget(task)

    def _end_of(
        self, task: asyncio.Task[Completed | Failed], analysis: Analysis, attempt: RunningAttempt
    ) -> AttemptEnd | None:
        if task.cancelled():
            return Failed(code="internal", message="The analysis canceled itself.", retryable=False)
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, StaleAttempt):
            return None
        failure = classify(error, analysis.transient)
        failure = msgspec.structs.replace(failure, meta={**failure.meta, "trace": _trace(error)})
        claim = attempt.claim
        delay = self._settings.backoff.delay(claim.retry_count, draw())
        return after_failure(failure, claim.retry_count, claim.max_retries, delay)

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

    async def _write_end(self, attempt: RunningAttempt, end: AttemptEnd) -> bool:
        """Writes the end, again and again while the store is away and the lease lives."""
        while not attempt.lease_seems_over:
            try:
                return await self._store.record(attempt.lease, end)
            except StoreUnavailable as error:
                tell(Fact.STORE_UNAVAILABLE, logging.ERROR, job_id=attempt.job_id, reason=str(error))
                await asyncio.sleep(_WRITE_AGAIN_SECONDS)
            except StoreError as error:
                tell(Fact.ATTEMPT_UNWRITTEN, logging.ERROR, job_id=attempt.job_id, reason=str(error))
                if end == _UNWRITABLE:
                    return False
                end = _UNWRITABLE
        return False


async def _as_coroutine(made: Awaitable[Any]) -> Any:
    return await made


def _input(analysis: Analysis, payload: str) -> dict[str, Any]:
    """The stored input; it was checked when it came, but the analysis may have changed since."""
    try:
        return msgspec.structs.asdict(msgspec.json.decode(payload, type=analysis.input_type))
    except msgspec.ValidationError as error:
        raise PermanentError(f"The stored input no longer fits the analysis: {error}") from error


def _forget(task: asyncio.Task[Completed | Failed]) -> None:
    """Takes what a stopped task left behind, so that nobody reports it as overlooked."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _trace(error: BaseException) -> str:
    """Where it went wrong, for operators: no values of variables, no secrets, not endless."""
    return clean_text("".join(traceback.format_exception(error))[-_LONGEST_TRACE:], _LONGEST_TRACE)
