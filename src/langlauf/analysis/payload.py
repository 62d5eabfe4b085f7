"""Values of an analysis as JSON text, and the threads that encode them beside the event loop.

Values come from the code of an analysis: reading one may take any time. So each attempt has a thread of its own, and
one that hangs delays neither other attempts nor the end of the program.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from langlauf.analysis.json_value import to_json_value
from langlauf.domain.errors import ResultTooLarge, ResultUnstorable, UnusableView, error_saying
from langlauf.domain.result import LARGEST_VIEWS, MOST_VIEWS, View

T = TypeVar("T")


class AttemptThread:
    """Runs the calls of one attempt beside the event loop, one at a time, each in a daemon thread.

    A shared pool could be exhausted by one attempt whose values are endless.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return what the function returns. The next call waits for its end, also if this one is no longer awaited."""
        await self._free.acquire()
        try:
            future = _start(function, args, ended=self._free.release)
        except BaseException:
            self._free.release()
            raise
        return await future


async def run_in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Return what the function returns, from a daemon thread; any number of such calls may run."""
    return await _start(function, args)


def _start(
    function: Callable[..., T], args: tuple[Any, ...], ended: Callable[[], None] = lambda: None
) -> "asyncio.Future[T]":
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        ended()
        if future.done():  # the attempt was stopped; nothing waits for the result
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
        except BaseException as raised:  # noqa: BLE001 - whatever it was belongs to the caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed; nothing waits for the result
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="langlauf-own").start()
    return future


#: So many items are encoded in less time than a thread takes to start.
_SMALL = 1_000
_LETTERS_LIKE_AN_ITEM = 64
#: In bytes or characters. Longer texts are decoded and copied in a thread.
LARGE_TEXT = 1_048_576
_THREADS = ThreadPoolExecutor(2, "langlauf-decoder")


def encode(value: Any, largest: int, order: Literal["sorted"] | None = None) -> str:
    """Return the value as JSON text; raise if it cannot be stored, never change it silently."""
    try:
        data = msgspec.json.encode(to_json_value(value, largest), order=order)
    except RecursionError as error:  # the analysis may have lowered the limit, or called from deep inside
        raise ResultUnstorable(f"the value is nested too deep: {error}") from error
    if len(data) > largest:
        raise error_saying(ResultTooLarge, "too_large", bytes=len(data), limit=largest)
    return data.decode()


async def encode_async(value: Any, largest: int, thread: AttemptThread) -> str:
    """Encode a value without blocking the event loop: in a thread unless it is certainly small."""
    return encode(value, largest) if is_small(value) else await thread.call(encode, value, largest)


async def run_in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a function of ours in a thread of ours: analyses may occupy all threads of the event loop.

    Not for values of an analysis: reading those may take any time.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREADS, function, *args)


def is_small(value: Any) -> bool:
    """Whether a value is encoded in less time than a thread takes to start."""
    left = _SMALL
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is dict or kind is list:
            if len(item) > left:
                return False
            waiting += item.values() if kind is dict else item
        elif kind is str:
            left -= len(item) // _LETTERS_LIKE_AN_ITEM
        elif kind not in (int, float, bool, type(None)):
            return False  # its content is not known before it is encoded
        left -= 1
        if left < len(waiting):
            return False
    return True


def decode(text: str) -> Any:
    """Return the value of stored JSON text."""
    return msgspec.json.decode(text)


async def decode_async(text: str) -> Any:
    """Decode without blocking the event loop."""
    return await run_in_thread(decode, text) if len(text) > LARGE_TEXT else decode(text)


class Result(msgspec.Struct, frozen=True):
    """A result with a summary and views, which a function may return instead of the bare result.

    Without a `summary`, the one in a mapping counts, as it does for a bare result.
    """

    payload: Any
    summary: Any = None
    views: Sequence[View] = ()


class EncodedResult(NamedTuple):
    """A function's result as it is stored: JSON texts."""

    payload: str
    summary: str | None = None
    views: str | None = None


def encode_result(result: Any, largest: int) -> EncodedResult:
    """Return a function's result with its summary, if any, and its views."""
    if result is None or type(result) in (str, int, float, bool):
        return EncodedResult(encode(result, largest))
    given = result if isinstance(result, Result) else Result(result)
    summary = given.summary
    if summary is None and isinstance(given.payload, Mapping):
        named = given.payload.get("summary")
        summary = named if isinstance(named, Mapping) else None
    return EncodedResult(
        encode(given.payload, largest),
        None if summary is None else encode(summary, largest),
        encode_views(given.views),
    )


def encode_views(views: Sequence[View]) -> str | None:
    """Return views as JSON text, or None if there are none."""
    if not isinstance(views, list | tuple) or not all(isinstance(view, View) for view in views):
        raise UnusableView("views is a list of what langlauf.views makes, as in views=[views.table(rows)]")
    if len(views) > MOST_VIEWS:
        raise UnusableView(f"a snapshot has at most {MOST_VIEWS} views, not {len(views)}; show the most telling ones")
    if not views:
        return None
    try:
        return encode(views, LARGEST_VIEWS)
    except ResultTooLarge as error:
        raise ResultTooLarge(
            f'the views of a snapshot: {error}; show less, or point into the result with at="/…"'
        ) from None


async def encode_views_async(views: Sequence[View], thread: AttemptThread) -> str | None:
    """Encode views without blocking the event loop."""
    return await thread.call(encode_views, views) if views else None
