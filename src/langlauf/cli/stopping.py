"""How `serve` and `worker` are stopped.

The first signal drains: nothing new is begun, what runs may finish within the grace. The second ends the grace: what
runs is given back now. The third ends the program at once, as `kill -9` would; its jobs go on when their leases are
over. Whatever is left when everything was given back, a thread or a coroutine that does not end, is not waited for.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import uvloop

from langlauf.app import Langlauf
from langlauf.bootstrap import Runtime
from langlauf.cli.interpreter import SWITCH_SECONDS, leave
from langlauf.cli.options import Stopped
from langlauf.domain.errors import LanglaufError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: What a shell shows for a program that a signal ended.
_KILLED = 128


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a program to its end; what stops it is told in one line."""
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        uvloop.run(main)
    except LanglaufError as error:
        raise Stopped(str(error)) from error


@asynccontextmanager
async def running_until_stopped(app: Langlauf, stop: Callable[[], None]) -> AsyncIterator[None]:
    """Runs an application; `stop`, which ends the block, is called at each of the first two signals."""
    runtime: Runtime | None = None

    def drain() -> None:
        stop()
        if runtime is not None:
            runtime.drain()

    def hurry() -> None:
        stop()
        if runtime is not None:
            runtime.hurry()

    exit_code = 1
    try:
        with _signals(drain, hurry):
            async with app.lifespan():
                runtime = app.runtime
                yield
        if runtime is not None and runtime.kept:
            raise Stopped(f"{runtime.kept} attempts could not be given back; they go on when their leases are over")
        exit_code = 0
    finally:
        leave(exit_code)


@contextmanager
def _signals(*steps: Callable[[], None]) -> Iterator[None]:
    """Takes the next step at each signal; one more than there are steps ends the program, also where the loop hangs."""
    loop, left = asyncio.get_running_loop(), list(steps)

    def handle(number: int, _: FrameType | None) -> None:
        if not left:
            os._exit(_KILLED + number)
        loop.call_soon_threadsafe(left.pop(0))

    for name in _SIGNALS:
        signal.signal(name, handle)
    try:
        yield
    finally:
        for name in _SIGNALS:  # the program is about to end: being told so again changes nothing
            signal.signal(name, signal.SIG_IGN)
