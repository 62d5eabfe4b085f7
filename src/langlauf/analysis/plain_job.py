"""The handle of a plain `def` analysis: the calls of `Job` as plain calls, from a process of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
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
from langlauf.domain.view import View

Item = TypeVar("Item")


class SyncAttempt(Protocol):
    """What the handle needs of the worker. A write that is refused raises `StaleAttempt`."""

    org_id: str
    job_id: str
    number: int
    largest_result: int
    trace_id: str
    traceparent: str | None
    tracestate: str | None

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""

    def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk."""

    def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""

    def previous(self, match: str) -> str | None:
        """The payload of the newest earlier result whose input has the values of this JSON object, as JSON text."""

    def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """The values of all chunks as JSON text, those that were missing computed side by side."""


class PlainJob:
    """One attempt of a job, seen from inside a plain `def`. Its calls may come from any thread of the process."""

    def __init__(self, attempt: SyncAttempt) -> None:
        self._attempt = attempt
        #: whether what was done last came out of the store and was not computed
        self._replaying = False

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self._attempt.job_id

    @property
    def org_id(self) -> str:
        """The org the job runs for."""
        return self._attempt.org_id

    @property
    def attempt(self) -> int:
        """Which execution of the job this is, from 1."""
        return self._attempt.number

    @property
    def trace_id(self) -> str:
        """The trace the job belongs to: that of its request where it named one, else one of its own."""
        return self._attempt.trace_id

    @property
    def traceparent(self) -> str | None:
        """The header that carries the trace on to other systems, where the job's request had one."""
        return self._attempt.traceparent

    @property
    def tracestate(self) -> str | None:
        """What belongs to `traceparent`, to be passed on with it as it is."""
        return self._attempt.tracestate

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop: worth a look in a long loop, for the process is ended soon."""
        return self._attempt.canceled

    def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Tells how far the job is. It never goes back, and 100 is kept for the end."""
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
        """Stores a snapshot that people can look at while the job goes on; returns its id.

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

    def previous(self, /, **match: Any) -> Any:
        """The result of an earlier job: the newest of this org and analysis whose input has these values.

        None where there is none, or none that is still kept: `job.previous(ontology="hp")`.
        """
        found = self._attempt.previous(encode(match, self._attempt.largest_result))
        return None if found is None else decode(found)

    def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the function once in the life of the job; after a crash its stored result comes back instead."""
        stored = self._attempt.chunk(check_chunk_key(key))
        self._replaying = stored is not None
        if stored is None:
            stored = encode(finished(function(*args)), self._attempt.largest_result)
            self._attempt.write(Checkpoint(key=key, payload=stored))
        return decode(stored)

    def chunks(self, items: Iterable[Item], step: str | None = None) -> Iterator[Item]:
        """Yields every item and reports how far it is; `step` may have a `{}` for the item."""
        for item, report in with_progress(items, step):
            if report is not None:
                self.progress(*report)
            yield item

    def map(
        self, function: Callable[[Any], Any], items: Iterable[Any], *, key: ChunkKey = None, step: str | None = None
    ) -> list[Any]:
        """Calls the function with every item, side by side; the results come in the order of the items.

        The function stands at the top of a module, and items and results are JSON. Each result is kept like that of a
        checkpoint, under `key` and the item's hash. With `step` it reports how far it is; a `{}` in it is the item.
        """
        chunks = split_chunks(function, items, key, self._attempt.largest_result)
        return [decode(payload) for payload in self._attempt.map(chunks, step)]


def finished(value: Any) -> Any:
    """What a function gave, with a coroutine run to its end: `async def` may be called from here as well."""
    return asyncio.run(value) if isinstance(value, Coroutine) else value
