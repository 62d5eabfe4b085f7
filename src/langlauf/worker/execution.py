"""Executions of a function: a coroutine on the event loop of the worker, or a plain function in a process."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from langlauf.analysis.chunks import Chunks
from langlauf.analysis.job import Job
from langlauf.analysis.payload import LARGE_TEXT, encode_result, is_small, run_in_daemon_thread, run_in_thread
from langlauf.analysis.registry import Analysis, reference_to
from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import StaleAttempt
from langlauf.domain.outcome import Completed, Crashed, Failed, Failure
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import ABANDONED
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.failure import failure_of
from langlauf.worker.loop_guard import LoopBlocked, contain, enter_attempt
from langlauf.worker.processes.child_protocol import (
    ChildReply,
    ChildRequest,
    FindPrevious,
    FromChild,
    FunctionEnd,
    FunctionRaised,
    FunctionReturned,
    LoadChunk,
    MapChunks,
    ReportPartial,
    ReportProgress,
    RequestFailed,
    RunAnalysis,
    SaveChunk,
    ValuesReply,
    WriteReply,
    is_large,
    json_text,
    json_text_or_none,
    raw_json,
)
from langlauf.worker.processes.process import ChildProcess, ProcessDied

#: How a function ended by itself; None where its attempt was no longer the current one.
ExecutionEnd = Completed | Failed | Failure | Crashed | None


class Execution(Protocol):
    """One function that runs."""

    #: done when the function has ended; it does not raise unless it was stopped
    ended: "asyncio.Task[ExecutionEnd]"

    async def stop(self, why: StopReason) -> None:
        """Returns when nothing computes any more, or when it was left alone after its grace."""


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
        self.ended: asyncio.Task[ExecutionEnd] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: StopReason) -> None:
        """Cancels the coroutine; one that does not end within the grace is left alone, fenced by its lost lease."""
        self._stopping = True
        self.ended.cancel()
        await asyncio.wait({self.ended}, timeout=_RELEASE_GRACE if why is StopReason.RELEASE else self._grace)
        if not self.ended.done():
            ABANDONED.add()
            log_event(
                LogEvent.ATTEMPT_ABANDONED, logging.ERROR, job_id=self._attempt.job_id, attempt=self._attempt.number
            )
        self.ended.add_done_callback(_forget)

    async def _run(self) -> ExecutionEnd:
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
            return await run_in_daemon_thread(failure_of, error, self._analysis.transient)

    async def _call(self) -> Completed:
        enter_attempt(self._attempt.job_id, self._attempt.number)
        result = await contain(self._analysis.function(Job(self._attempt), **self._values))
        limit = self._attempt.largest_result
        end = (
            encode_result(result, limit)
            if is_small(result)
            else await run_in_daemon_thread(encode_result, result, limit)
        )
        return Completed(result_id=new_id(), payload=end.payload, summary=end.summary, views=end.views)


def _blocked(error: BaseException) -> BaseException | None:
    """What interrupted the analysis because it blocked the event loop, if that is how it ended."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _blocked(one)) is not None), None)
    return error if isinstance(error, LoopBlocked) else None


def _forget(task: asyncio.Task[ExecutionEnd]) -> None:
    """Takes what a stopped task left behind, so that nobody reports it as overlooked."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


class ProcessExecution:
    """Talks with the process that runs the function, until the function ends."""

    def __init__(self, analysis: Analysis, attempt: RunningAttempt, grace: float) -> None:
        self._analysis = analysis
        self._attempt = attempt
        self._grace = grace
        self._process: ChildProcess | None = None
        self.ended: asyncio.Task[ExecutionEnd] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: StopReason) -> None:
        """A canceled function is asked and has a grace to tidy up; for every other reason its process ends at once."""
        if why is StopReason.CANCEL and self._process is not None:
            await self._process.ask_to_stop()
            await asyncio.wait({self.ended}, timeout=self._grace)
        process = self._process
        self.ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self.ended})
        if process is not None and not process.reusable:
            await process.gone()

    async def _run(self) -> ExecutionEnd:
        try:
            async with self._attempt.process() as process:
                self._process = process
                return await self._converse(process)
        except StaleAttempt:
            return None
        except ProcessDied as died:
            return died.crash
        except Exception as error:  # noqa: BLE001 - whatever keeps the function from being run is how it ended
            return failure_of(error, ())

    async def _converse(self, process: ChildProcess) -> ExecutionEnd:
        await process.send(self._task())
        while True:
            message = await process.receive()
            if isinstance(message, FunctionEnd):
                return await self._end(process, message)
            if isinstance(message, ChildRequest):
                await process.send(await process.while_alive(self._answer(message)))

    def _task(self) -> RunAnalysis:
        attempt = self._attempt
        return RunAnalysis(
            function=reference_to(self._analysis.function),
            name=self._analysis.name,
            transient=self._analysis.transient_references,
            input=raw_json(attempt.claim.payload),
            org_id=attempt.org_id,
            job_id=attempt.job_id,
            attempt=attempt.number,
            largest_result=attempt.largest_result,
            trace_id=attempt.trace_id,
            traceparent=attempt.traceparent,
            tracestate=attempt.tracestate,
        )

    async def _end(self, process: ChildProcess, end: FromChild) -> ExecutionEnd:
        # Stopped or stale, a process has had its say: it is not used again.
        process.reusable = getattr(end, "reusable", False) and not self._attempt.stop_requested.done()
        if isinstance(end, FunctionReturned):
            return await run_in_thread(_completed, end) if is_large(end.payload, end.summary) else _completed(end)
        return end.failure if isinstance(end, FunctionRaised) else None

    async def _answer(self, question: ChildRequest) -> ChildReply:
        try:
            if isinstance(question, LoadChunk):
                return await _found(await self._attempt.chunk(question.key))
            if isinstance(question, FindPrevious):
                return await _found(await self._attempt.previous(json_text(question.match)))
            if isinstance(question, MapChunks):
                return await _found(*await self._map(question))
            large = not isinstance(question, ReportProgress) and is_large(question.payload)
            await self._attempt.write(await run_in_thread(_write, question) if large else _write(question))
        except StaleAttempt:
            return WriteReply(refused=True)
        except ProcessDied:
            raise
        except Exception as error:  # noqa: BLE001 - the function hears of it, and may go on
            return RequestFailed(failure_of(error, ()))
        return WriteReply()

    async def _map(self, question: MapChunks) -> list[str]:
        items = await run_in_thread(_texts, question.items) if is_large(*question.items) else _texts(question.items)
        chunks = Chunks(question.function, question.keys, items)
        return await self._attempt.map(chunks, question.step)


async def _found(*payloads: str | None) -> ValuesReply:
    texts = [payload for payload in payloads if payload is not None]
    return ValuesReply(await run_in_thread(_raws, texts) if sum(map(len, texts)) > LARGE_TEXT else _raws(texts))


def _raws(texts: Sequence[str]) -> list[msgspec.Raw]:
    return [raw_json(text) for text in texts]


def _texts(payloads: Sequence[msgspec.Raw]) -> list[str]:
    return [json_text(payload) for payload in payloads]


def _completed(end: FunctionReturned) -> Completed:
    payload, summary, views = json_text(end.payload), json_text_or_none(end.summary), json_text_or_none(end.views)
    return Completed(result_id=new_id(), payload=payload, summary=summary, views=views)


def _write(question: ReportProgress | ReportPartial | SaveChunk) -> Progress | Partial | Checkpoint:
    if isinstance(question, ReportProgress):
        return Progress(percent=question.percent, step=question.step, replayed=question.replayed)
    if isinstance(question, SaveChunk):
        return Checkpoint(key=question.key, payload=json_text(question.payload))
    return Partial(
        result_id=question.result_id,
        payload=json_text(question.payload),
        summary=json_text_or_none(question.summary),
        views=json_text_or_none(question.views),
        percent=question.percent,
        step=question.step,
        replayed=question.replayed,
    )
