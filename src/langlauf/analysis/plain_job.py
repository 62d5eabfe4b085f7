"""The handle of a plain `def` analysis: the calls of `Job` as plain calls, from a process of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
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
from langlauf.analysis.payload import decode, encode, encode_views
from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.provenance import Source, declared_source
from langlauf.domain.result import View

Item = TypeVar("Item")


class SyncAttempt(Protocol):
    """What the handle needs of the worker. A write that is refused raises `StaleAttempt`."""

    org_id: str
    job_id: str
    number: int
    largest_result: int
    trace_id: str
    planned_at: Instant | None
    traceparent: str | None
    tracestate: str | None

    @property
    def canceled(self) -> bool:
        """Whether the job is to be canceled."""

    def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Return when the write is on disk."""

    def chunk(self, key: str) -> str | None:
        """Return the stored value of a finished chunk as JSON text, or None."""

    def source(self, source: Source) -> None:
        """Return when the source is on disk; one that is known changes nothing."""

    def previous(self, match: str) -> str | None:
        """Return the payload of the newest earlier result whose input has these values; all are JSON text."""

    def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """Return the values of all chunks as JSON text; missing ones are computed in parallel."""


class PlainJob:
    """One attempt of a job, as a plain `def` sees it. Its methods may be called from any thread of the process."""

    def __init__(self, attempt: SyncAttempt) -> None:
        self._attempt = attempt
        #: whether the last step came from a checkpoint and was not computed
        self._replaying = False

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
        """Whether the job is to be canceled: check it in long loops, as the process is killed after the grace."""
        return self._attempt.canceled

    def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Report progress. It never falls, and 100 is reserved for the end."""
        percent, step = check_percent(percent), clean_step(step)
        self._attempt.write(Progress(percent=percent, step=step, replayed=self._replaying))

    def partial(
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
            payload=encode(payload, limit),
            summary=None if summary is None else encode(summary, limit),
            percent=check_percent(progress),
            step=clean_step(step),
            replayed=self._replaying,
            views=encode_views(views),
        )
        self._attempt.write(write)
        return result_id

    def source(
        self,
        name: str,
        *,
        version: str | None = None,
        hash: str | None = None,  # noqa: A002 - the word for it
        url: str | None = None,
    ) -> None:
        """Declare what the result is made from, for its provenance. Declaring the same again changes nothing."""
        self._attempt.source(declared_source(name, version, hash, url))

    def previous(self, /, **match: Any) -> Any:
        """Return the result of an earlier job: the newest of this org and analysis whose input has these values.

        None if there is none, or none that is still kept: `job.previous(ontology="hp")`.
        """
        found = self._attempt.previous(encode(match, self._attempt.largest_result))
        return None if found is None else decode(found)

    def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function once in the life of the job; after a crash return its stored result instead."""
        stored = self._attempt.chunk(check_chunk_key(key))
        self._replaying = stored is not None
        if stored is None:
            stored = encode(finished(function(*args)), self._attempt.largest_result)
            self._attempt.write(Checkpoint(key=key, payload=stored))
        return decode(stored)

    def chunks(self, items: Iterable[Item], step: str | None = None) -> Iterator[Item]:
        """Yield every item and report progress; `step` may have a `{}` for the item."""
        for item, report in with_progress(items, step):
            if report is not None:
                self.progress(*report)
            yield item

    def map(
        self, function: Callable[[Any], Any], items: Iterable[Any], *, key: ChunkKey = None, step: str | None = None
    ) -> list[Any]:
        """Call the function with every item in parallel; results are in the order of the items.

        The function must be at the top level of a module, and items and results are JSON. Each result is stored like a
        checkpoint, under `key` and the item's hash. With `step` it reports progress; a `{}` in it is the item.
        """
        chunks = split_chunks(function, items, key, self._attempt.largest_result)
        return [decode(payload) for payload in self._attempt.map(chunks, step)]


def finished(value: Any) -> Any:
    """Return what a function returned; a coroutine is run to its end, so that `async def` works here as well."""
    return asyncio.run(value) if isinstance(value, Coroutine) else value
