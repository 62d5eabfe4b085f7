"""The handle of an `async def` analysis: its calls become writes under the attempt's lease; and a built-in one."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from langlauf.analysis.chunks import (
    ChunkKey,
    Chunks,
    check_chunk_key,
    check_percent,
    clean_step,
    split_chunks,
    with_progress,
)
from langlauf.analysis.payload import (
    AttemptThread,
    decode,
    decode_async,
    encode_async,
    encode_views_async,
    run_in_daemon_thread,
)
from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.provenance import Source, declared_source
from langlauf.domain.result import View

Item = TypeVar("Item")


class AsyncAttempt(Protocol):
    """What the handle needs of the worker. A write that is refused raises `StaleAttempt`."""

    org_id: str
    job_id: str
    number: int
    largest_result: int
    trace_id: str
    planned_at: Instant | None

    @property
    def traceparent(self) -> str | None:
        """Return the trace context for other systems, or None."""

    @property
    def tracestate(self) -> str | None:
        """Return the vendor data of the trace context, or None."""

    @property
    def canceled(self) -> bool:
        """Whether the job is to be canceled."""

    async def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Return when the write is on disk."""

    async def chunk(self, key: str) -> str | None:
        """Return the stored value of a finished chunk as JSON text, or None."""

    async def source(self, source: Source) -> None:
        """Return when the source is on disk; one that is known changes nothing."""

    async def previous(self, match: str) -> str | None:
        """Return the payload of the newest earlier result whose input has these values; all are JSON text."""

    async def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """Return the values of all chunks as JSON text; missing ones are computed in parallel."""


class Job:
    """One attempt of a job, as the analysis sees it."""

    def __init__(self, attempt: AsyncAttempt) -> None:
        self._attempt = attempt
        #: whether the last step came from a checkpoint and was not computed
        self._replaying = False
        #: encodes values of the analysis
        self._thread = AttemptThread()

    @property
    def job_id(self) -> str:
        """Return the id of the job."""
        return self._attempt.job_id

    @property
    def org_id(self) -> str:
        """Return the org of the job."""
        return self._attempt.org_id

    @property
    def attempt(self) -> int:
        """Return the number of the attempt, from 1."""
        return self._attempt.number

    @property
    def trace_id(self) -> str:
        """Return the trace id of the job: that of its request, or a new one."""
        return self._attempt.trace_id

    @property
    def planned_at(self) -> datetime | None:
        """Return for when a schedule had planned the job; None for any other job."""
        return None if self._attempt.planned_at is None else to_datetime(self._attempt.planned_at)

    @property
    def traceparent(self) -> str | None:
        """Return the `traceparent` header for other systems, if the job's request had one."""
        return self._attempt.traceparent

    @property
    def tracestate(self) -> str | None:
        """Return the `tracestate` header that belongs to `traceparent`, to be passed on unchanged."""
        return self._attempt.tracestate

    @property
    def canceled(self) -> bool:
        """Whether the job is to be canceled."""
        return self._attempt.canceled

    async def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Report progress. It never falls, and 100 is reserved for the end."""
        percent, step = check_percent(percent), clean_step(step)
        await self._attempt.write(Progress(percent=percent, step=step, replayed=self._replaying))

    async def partial(
        self,
        payload: Any,
        *,
        summary: Any = None,
        progress: float | None = None,
        step: str | None = None,
        views: Sequence[View] = (),
    ) -> str:
        """Store a partial snapshot that people can see while the job runs; return its id.

        `views` says how they see it: a list of what `langlauf.views` makes.
        """
        result_id = new_id()
        limit = self._attempt.largest_result
        write = Partial(
            result_id=result_id,
            payload=await encode_async(payload, limit, self._thread),
            summary=None if summary is None else await encode_async(summary, limit, self._thread),
            percent=check_percent(progress),
            step=clean_step(step),
            replayed=self._replaying,
            views=await encode_views_async(views, self._thread),
        )
        await self._attempt.write(write)
        return result_id

    async def source(
        self,
        name: str,
        *,
        version: str | None = None,
        hash: str | None = None,  # noqa: A002 - the word for it
        url: str | None = None,
    ) -> None:
        """Declare what the result is made from, for its provenance. Declaring the same again changes nothing."""
        await self._attempt.source(declared_source(name, version, hash, url))

    async def previous(self, /, **match: Any) -> Any:
        """Return the result of an earlier job: the newest of this org and analysis whose input has these values.

        None if there is none, or none that is still kept: `job.previous(ontology="hp")`.
        """
        match_text = await encode_async(match, self._attempt.largest_result, self._thread)
        found = await self._attempt.previous(match_text)
        return None if found is None else await decode_async(found)

    async def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function once in the life of the job; after a crash return its stored result instead.

        A coroutine function runs here, a plain one in a thread. The result is converted to JSON, in the first attempt
        as in later ones.
        """
        stored = await self._attempt.chunk(check_chunk_key(key))
        self._replaying = stored is not None
        if stored is None:
            value = await _call(function, args)
            stored = await encode_async(value, self._attempt.largest_result, self._thread)
            await self._attempt.write(Checkpoint(key=key, payload=stored))
        return await decode_async(stored)

    async def chunks(self, items: Iterable[Item], step: str | None = None) -> AsyncIterator[Item]:
        """Yield every item and report progress; `step` may have a `{}` for the item."""
        for item, report in with_progress(items, step):
            if report is not None:
                await self.progress(*report)
            yield item

    async def map(
        self, function: Callable[[Any], Any], items: Iterable[Any], *, key: ChunkKey = None, step: str | None = None
    ) -> list[Any]:
        """Call the function with every item in parallel; results are in the order of the items.

        The function must be at the top level of a module, and items and results are JSON. Each result is stored like a
        checkpoint, under `key` and the item's hash. With `step` it reports progress; a `{}` in it is the item.
        """
        chunks = await self._thread.call(split_chunks, function, items, key, self._attempt.largest_result)
        payloads = await self._attempt.map(chunks, step)
        return await self._thread.call(lambda: [decode(payload) for payload in payloads])


async def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    value = await run_in_daemon_thread(function, *args)
    return await value if isinstance(value, Awaitable) else value


# -- the analysis of `langlauf doctor --probe` -------------------------------------------------------------------------
# The built-in analysis of `langlauf doctor --probe`: it does nothing, so that the probe measures everything else.
#
# It is in no list and no form, and runs in an org of its own.

PROBE_NAME = "langlauf.probe"
PROBE_ORG = "langlauf-probe"
#: The longest that it waits, whatever is requested.
LONGEST_PROBE_SECONDS = 30.0
PROBE_TIMEOUT = 60.0


async def probe(job: Job, seconds: float = 0.0) -> dict[str, int]:
    """Wait, so that it can be canceled meanwhile, and return the number of the attempt."""
    await job.progress(50, step="Probing")
    await asyncio.sleep(min(max(seconds, 0.0), LONGEST_PROBE_SECONDS))
    return {"attempt": job.attempt}
