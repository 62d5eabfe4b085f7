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
from langlauf.domain.errors import StaleAttempt, sentence_meta, sentence_text
from langlauf.domain.outcome import Completed, Crashed, Failed, Failure
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import ABANDONED
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.failure import failure_of
from langlauf.worker.loop_guard import LoopBlocked, contain, enter_attempt
from langlauf.worker.processes.child_protocol import (
    ChildReply,
    ChildRequest,
    DeclareSource,
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

#: How a function ended by itself; None if its attempt is stale.
ExecutionEnd = Completed | Failed | Failure | Crashed | None
#: Time for a coroutine to handle its cancellation at a release, after the grace of the shutdown.
_RELEASE_GRACE = 0.2


class Execution(Protocol):
    """One running function."""

    #: done when the function has ended; raises only if it was stopped
    ended: "asyncio.Task[ExecutionEnd]"

    async def stop(self, why: StopReason) -> None:
        """Stop the function; returns when it has ended, or is abandoned after its grace."""


class CoroutineExecution:
    """A coroutine function in a task of its own, on the event loop of the worker."""

    def __init__(self, analysis: Analysis, attempt: RunningAttempt, values: dict[str, Any], grace: float) -> None:
        self._analysis = analysis
        self._attempt = attempt
        self._values = values
        self._grace = grace
        self._stopping = False
        self.ended: asyncio.Task[ExecutionEnd] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: StopReason) -> None:
        """Cancel the coroutine; one that does not end within the grace is abandoned, and its writes are refused."""
        self._stopping = True
        self.ended.cancel()
        await asyncio.wait({self.ended}, timeout=_RELEASE_GRACE if why is StopReason.RELEASE else self._grace)
        if not self.ended.done():
            ABANDONED.add()
            log_event(
                LogEvent.ATTEMPT_ABANDONED, logging.ERROR, job_id=self._attempt.job_id, attempt=self._attempt.number
            )
        self.ended.add_done_callback(_retrieve_exception)

    async def _run(self) -> ExecutionEnd:
        try:
            return await self._call()
        except asyncio.CancelledError:
            if self._stopping:
                raise
            message, meta = sentence_text("canceled_itself"), sentence_meta("canceled_itself")
            return Failure(code="internal", message=message, transient=False, meta=meta)
        except StaleAttempt:
            return None
        except ProcessDied as died:
            return died.crash
        except BaseException as error:  # noqa: BLE001 - every exception of the analysis is an outcome
            if (blocked := _blocked(error)) is not None:
                return Crashed(str(blocked))
            # In a thread, as formatting runs code of the analysis, which may block.
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
    """Return the `LoopBlocked` that ended the analysis, also inside an exception group, or None."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _blocked(one)) is not None), None)
    return error if isinstance(error, LoopBlocked) else None


def _retrieve_exception(task: asyncio.Task[ExecutionEnd]) -> None:
    """Retrieve the exception of a stopped task, which asyncio would otherwise report."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


class ProcessExecution:
    """A plain function in a child process: answers its requests until it ends."""

    def __init__(self, analysis: Analysis, attempt: RunningAttempt, grace: float) -> None:
        self._analysis = analysis
        self._attempt = attempt
        self._grace = grace
        self._process: ChildProcess | None = None
        self.ended: asyncio.Task[ExecutionEnd] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: StopReason) -> None:
        """After a cancel, let the function finish within the grace; otherwise end its process at once."""
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
                return await self._serve_requests(process)
        except StaleAttempt:
            return None
        except ProcessDied as died:
            return died.crash
        except Exception as error:  # noqa: BLE001 - a function that cannot be run is a failed one
            return failure_of(error, ())

    async def _serve_requests(self, process: ChildProcess) -> ExecutionEnd:
        await process.send(self._task())
        while True:
            message = await process.receive()
            if isinstance(message, FunctionEnd):
                return await self._end(process, message)
            if isinstance(message, ChildRequest):
                await process.send(await process.while_alive(self._reply(message)))

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
            planned_at=attempt.planned_at,
            traceparent=attempt.traceparent,
            tracestate=attempt.tracestate,
        )

    async def _end(self, process: ChildProcess, end: FromChild) -> ExecutionEnd:
        # A process whose attempt was stopped or is stale is not reused.
        process.reusable = getattr(end, "reusable", False) and self._attempt.stop_reason is None
        if isinstance(end, FunctionReturned):
            return await run_in_thread(_completed, end) if is_large(end.payload, end.summary) else _completed(end)
        return end.failure if isinstance(end, FunctionRaised) else None

    async def _reply(self, request: ChildRequest) -> ChildReply:
        try:
            if isinstance(request, LoadChunk):
                return await _values_reply(await self._attempt.chunk(request.key))
            if isinstance(request, FindPrevious):
                return await _values_reply(await self._attempt.previous(json_text(request.match)))
            if isinstance(request, MapChunks):
                return await _values_reply(*await self._map(request))
            await self._write(request)
        except StaleAttempt:
            return WriteReply(refused=True)
        except ProcessDied:
            raise
        except Exception as error:  # noqa: BLE001 - the function gets the error, and may handle it
            return RequestFailed(failure_of(error, ()))
        return WriteReply()

    async def _write(self, request: ReportProgress | ReportPartial | SaveChunk | DeclareSource) -> None:
        if isinstance(request, DeclareSource):
            await self._attempt.source(request.source)
            return
        large = not isinstance(request, ReportProgress) and is_large(request.payload)
        await self._attempt.write(await run_in_thread(_write_of, request) if large else _write_of(request))

    async def _map(self, request: MapChunks) -> list[str]:
        items = await run_in_thread(_texts, request.items) if is_large(*request.items) else _texts(request.items)
        chunks = Chunks(request.function, request.keys, items)
        return await self._attempt.map(chunks, request.step)


async def _values_reply(*payloads: str | None) -> ValuesReply:
    texts = [payload for payload in payloads if payload is not None]
    return ValuesReply(await run_in_thread(_raws, texts) if sum(map(len, texts)) > LARGE_TEXT else _raws(texts))


def _raws(texts: Sequence[str]) -> list[msgspec.Raw]:
    return [raw_json(text) for text in texts]


def _texts(payloads: Sequence[msgspec.Raw]) -> list[str]:
    return [json_text(payload) for payload in payloads]


def _completed(end: FunctionReturned) -> Completed:
    payload, summary, views = json_text(end.payload), json_text_or_none(end.summary), json_text_or_none(end.views)
    return Completed(result_id=new_id(), payload=payload, summary=summary, views=views)


def _write_of(request: ReportProgress | ReportPartial | SaveChunk) -> Progress | Partial | Checkpoint:
    if isinstance(request, ReportProgress):
        return Progress(percent=request.percent, step=request.step, replayed=request.replayed)
    if isinstance(request, SaveChunk):
        return Checkpoint(key=request.key, payload=json_text(request.payload))
    return Partial(
        result_id=request.result_id,
        payload=json_text(request.payload),
        summary=json_text_or_none(request.summary),
        views=json_text_or_none(request.views),
        percent=request.percent,
        step=request.step,
        replayed=request.replayed,
    )
