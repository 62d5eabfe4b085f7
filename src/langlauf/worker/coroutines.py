"""Coroutine functions run on the event loop of the worker."""

import asyncio
import contextlib
import logging
from typing import Any

from langlauf.analysis.handle import Job
from langlauf.analysis.own_thread import in_own_thread
from langlauf.analysis.payload import final, is_small
from langlauf.analysis.registry import Analysis
from langlauf.clock import new_id
from langlauf.domain.errors import StaleAttempt
from langlauf.domain.outcome import Completed, Crashed, Failure
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import ABANDONED
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.execution import Ended
from langlauf.worker.failure import failure_of
from langlauf.worker.loop_guard import LoopBlocked, contained, enter_attempt
from langlauf.worker.processes.pool import ProcessDied

#: The grace of a shutdown is over by then: enough for a coroutine that only needs to hear of it.
_RELEASE_GRACE = 0.2


class CoroutineExecution:
    """Awaits the function in a task of its own."""

    def __init__(self, analysis: Analysis, attempt: RunningAttempt, values: dict[str, Any], grace: float) -> None:
        self._analysis = analysis
        self._attempt = attempt
        self._values = values
        self._grace = grace
        self._stopping = False
        self.ended: asyncio.Task[Ended] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: Stop) -> None:
        """Cancels the coroutine; one that does not end within the grace is left alone, fenced by its lost lease."""
        self._stopping = True
        self.ended.cancel()
        await asyncio.wait({self.ended}, timeout=_RELEASE_GRACE if why is Stop.RELEASE else self._grace)
        if not self.ended.done():
            ABANDONED.add()
            log_event(
                LogEvent.ATTEMPT_ABANDONED, logging.ERROR, job_id=self._attempt.job_id, attempt=self._attempt.number
            )
        self.ended.add_done_callback(_forget)

    async def _run(self) -> Ended:
        try:
            return await self._call()
        except asyncio.CancelledError:
            if self._stopping:
                raise
            return Failure(code="internal", message="The analysis canceled itself.", transient=False)
        except StaleAttempt:
            return None
        except ProcessDied as died:
            return died.crash
        except BaseException as error:  # noqa: BLE001 - whatever the analysis raised is how it ended
            if (blocked := _blocked(error)) is not None:
                return Crashed(str(blocked))
            # What it says is code and data of the analysis: neither may hold up the event loop.
            return await in_own_thread(failure_of, error, self._analysis.transient)

    async def _call(self) -> Completed:
        enter_attempt(self._attempt.job_id, self._attempt.number)
        result = await contained(self._analysis.function(Job(self._attempt), **self._values))
        limit = self._attempt.largest_result
        end = final(result, limit) if is_small(result) else await in_own_thread(final, result, limit)
        return Completed(result_id=new_id(), payload=end.payload, summary=end.summary, views=end.views)


def _blocked(error: BaseException) -> BaseException | None:
    """What interrupted the analysis because it blocked the event loop, if that is how it ended."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _blocked(one)) is not None), None)
    return error if isinstance(error, LoopBlocked) else None


def _forget(task: asyncio.Task[Ended]) -> None:
    """Takes what a stopped task left behind, so that nobody reports it as overlooked."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
