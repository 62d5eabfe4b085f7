"""Plain functions run in a process; the worker answers what they ask and writes what they tell."""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from langlauf.analysis.chunking import Chunks
from langlauf.analysis.naming import reference_to
from langlauf.analysis.payload import LARGE, aside
from langlauf.analysis.registry import Analysis
from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import StaleAttempt
from langlauf.domain.outcome import Completed
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.execution import Ended
from langlauf.worker.failure import failure_of
from langlauf.worker.processes.child_protocol import (
    Answer,
    Broke,
    CouldNot,
    End,
    FindChunk,
    Found,
    FromProcess,
    KeepChunk,
    LookBack,
    MapChunks,
    Question,
    Returned,
    RunAnalysis,
    ShowPartial,
    TellProgress,
    Written,
    is_large,
    raw,
    text_of,
    text_or_none,
)
from langlauf.worker.processes.pool import Process, ProcessDied


class ProcessExecution:
    """Talks with the process that runs the function, until the function ends."""

    def __init__(self, analysis: Analysis, attempt: RunningAttempt, grace: float) -> None:
        self._analysis = analysis
        self._attempt = attempt
        self._grace = grace
        self._process: Process | None = None
        self.ended: asyncio.Task[Ended] = asyncio.create_task(self._run(), name=f"job {attempt.job_id}")

    async def stop(self, why: Stop) -> None:
        """A canceled function is asked and has a grace to tidy up; for every other reason its process ends at once."""
        if why is Stop.CANCEL and self._process is not None:
            await self._process.ask_to_stop()
            await asyncio.wait({self.ended}, timeout=self._grace)
        process = self._process
        self.ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self.ended})
        if process is not None and not process.reusable:
            await process.gone()

    async def _run(self) -> Ended:
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

    async def _converse(self, process: Process) -> Ended:
        await process.send(self._task())
        while True:
            message = await process.hear()
            if isinstance(message, End):
                return await self._end(process, message)
            if isinstance(message, Question):
                await process.send(await process.while_alive(self._answer(message)))

    def _task(self) -> RunAnalysis:
        attempt = self._attempt
        return RunAnalysis(
            function=reference_to(self._analysis.function),
            name=self._analysis.name,
            transient=self._analysis.transient_references,
            input=raw(attempt.claim.payload),
            org_id=attempt.org_id,
            job_id=attempt.job_id,
            attempt=attempt.number,
            largest_result=attempt.largest_result,
            trace_id=attempt.trace_id,
            traceparent=attempt.traceparent,
            tracestate=attempt.tracestate,
        )

    async def _end(self, process: Process, end: FromProcess) -> Ended:
        # Stopped or stale, a process has had its say: it is not used again.
        process.reusable = getattr(end, "reusable", False) and not self._attempt.stop_wish.done()
        if isinstance(end, Returned):
            return await aside(_completed, end) if is_large(end.payload, end.summary) else _completed(end)
        return end.failure if isinstance(end, Broke) else None

    async def _answer(self, question: Question) -> Answer:
        try:
            if isinstance(question, FindChunk):
                return await _found(await self._attempt.chunk(question.key))
            if isinstance(question, LookBack):
                return await _found(await self._attempt.previous(text_of(question.match)))
            if isinstance(question, MapChunks):
                return await _found(*await self._map(question))
            large = not isinstance(question, TellProgress) and is_large(question.payload)
            await self._attempt.write(await aside(_write, question) if large else _write(question))
        except StaleAttempt:
            return Written(refused=True)
        except ProcessDied:
            raise
        except Exception as error:  # noqa: BLE001 - the function hears of it, and may go on
            return CouldNot(failure_of(error, ()))
        return Written()

    async def _map(self, question: MapChunks) -> list[str]:
        items = await aside(_texts, question.items) if is_large(*question.items) else _texts(question.items)
        chunks = Chunks(question.function, question.keys, items)
        return await self._attempt.map(chunks, question.step)


async def _found(*payloads: str | None) -> Found:
    texts = [payload for payload in payloads if payload is not None]
    return Found(await aside(_raws, texts) if sum(map(len, texts)) > LARGE else _raws(texts))


def _raws(texts: Sequence[str]) -> list[msgspec.Raw]:
    return [raw(text) for text in texts]


def _texts(payloads: Sequence[msgspec.Raw]) -> list[str]:
    return [text_of(payload) for payload in payloads]


def _completed(end: Returned) -> Completed:
    payload, summary, views = text_of(end.payload), text_or_none(end.summary), text_or_none(end.views)
    return Completed(result_id=new_id(), payload=payload, summary=summary, views=views)


def _write(question: TellProgress | ShowPartial | KeepChunk) -> Progress | Partial | Checkpoint:
    if isinstance(question, TellProgress):
        return Progress(percent=question.percent, step=question.step, replayed=question.replayed)
    if isinstance(question, KeepChunk):
        return Checkpoint(key=question.key, payload=text_of(question.payload))
    return Partial(
        result_id=question.result_id,
        payload=text_of(question.payload),
        summary=text_or_none(question.summary),
        views=text_or_none(question.views),
        percent=question.percent,
        step=question.step,
        replayed=question.replayed,
    )
