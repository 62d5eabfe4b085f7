"""The handle an analysis works with. Its calls become values that the worker writes under the attempt's lease."""

import asyncio
import contextlib
import contextvars
import inspect
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from langlauf.analysis.payload import decode, encoded
from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import ResultUnstorable
from langlauf.domain.redact import clean_text
from langlauf.domain.text import first_flaw

Item = TypeVar("Item")
#: Steps of quick chunks need not all be written; people cannot read faster than this.
_STEP_SECONDS = 0.25
_LONGEST_STEP = 200


class Attempt(Protocol):
    """What the handle needs of the worker. A write that is refused raises `StaleAttempt`."""

    org_id: str
    job_id: str
    number: int
    largest_result: int

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""

    async def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk."""

    async def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""


class Job:
    """One attempt of a job, seen from inside the analysis."""

    def __init__(self, attempt: Attempt) -> None:
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
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""
        return self._attempt.canceled

    async def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Tells how far the job is. It never goes back, and 100 is kept for the end."""
        await self._attempt.write(Progress(percent=_percent(percent), step=_step(step), replayed=self._replaying))

    async def partial(
        self, payload: Any, *, summary: Any = None, progress: float | None = None, step: str | None = None
    ) -> str:
        """Stores a snapshot that people can look at while the job goes on; returns its id."""
        result_id = new_id()
        limit = self._attempt.largest_result
        write = Partial(
            result_id=result_id,
            payload=await encoded(payload, limit),
            summary=None if summary is None else await encoded(summary, limit),
            percent=_percent(progress),
            step=_step(step),
            replayed=self._replaying,
        )
        await self._attempt.write(write)
        return result_id

    async def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the function once in the life of the job; after a crash its stored result comes back instead.

        A coroutine function runs here, a plain one in a thread. The result is what JSON makes of it, in the first
        attempt as in the next.
        """
        if flaw := first_flaw(key):
            raise ResultUnstorable(f"the key of a chunk cannot be kept: {flaw}")
        stored = await self._attempt.chunk(key)
        self._replaying = stored is not None
        if stored is None:
            value = await _call(function, args)
            stored = await encoded(value, self._attempt.largest_result)
            await self._attempt.write(Checkpoint(key=key, payload=stored))
        return decode(stored)

    async def chunks(self, items: Iterable[Item], step: str | None = None) -> AsyncIterator[Item]:
        """Yields every item and reports how far it is; `step` may have a `{}` for the item."""
        known = items if isinstance(items, Sequence) else list(items)
        total = max(len(known), 1)
        shown_percent, shown_at = -1, 0.0
        for index, item in enumerate(known):
            percent = index * 100 // total
            if percent != shown_percent or time.monotonic() - shown_at >= _STEP_SECONDS:
                shown_percent, shown_at = percent, time.monotonic()
                await self.progress(percent, step.format(item) if step else None)
            yield item


def _percent(number: float | None) -> float | None:
    """A report of progress that means something."""
    if number is not None and not math.isfinite(number):
        raise ValueError(f"progress must be a number from 0 to 100, not {number}")
    return number


def _step(text: str | None) -> str | None:
    """What a step says, fit to be stored and shown on one line."""
    return None if text is None else clean_text(text, _LONGEST_STEP)


async def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    value = await _in_thread(function, args)
    return await value if isinstance(value, Awaitable) else value


async def _in_thread(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Runs it in a daemon thread of its own: one that hangs holds up neither its neighbours nor the program's end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():  # the attempt was stopped; nobody waits any more
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function, *args)
        except StopIteration as stopped:  # a future cannot carry it
            error = RuntimeError(f"the function raised StopIteration: {stopped}")
        except BaseException as raised:  # noqa: BLE001 - whatever it was belongs to whoever awaits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="langlauf-checkpoint").start()
    return await future
