"""Calls in a thread of their own: one that hangs holds up neither its neighbours nor the program's end."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class OwnThread:
    """Runs the calls of one attempt beside the event loop, one at a time, each in a daemon thread.

    A pool that attempts share could be taken from all of them by one whose values have no end.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """What the function returns. The next call waits for its end, also where this one is no longer awaited."""
        await self._free.acquire()
        try:
            future = _start(function, args, ended=self._free.release)
        except BaseException:
            self._free.release()
            raise
        return await future


async def in_own_thread(function: Callable[..., T], *args: Any) -> T:
    """What the function returns; any number of such calls may be under way."""
    return await _start(function, args)


def _start(
    function: Callable[..., T], args: tuple[Any, ...], ended: Callable[[], None] = lambda: None
) -> "asyncio.Future[T]":
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        ended()
        if future.done():  # the attempt was stopped; nothing waits for it any more
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="langlauf-own").start()
    return future
