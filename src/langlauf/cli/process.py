"""The process of `serve` and `worker`: signals and shutdown.

The first signal drains: no new attempt starts, running ones may finish within the grace period. The second ends the
grace period: running attempts are released now. The third ends the process at once, as `kill -9` would; its jobs
continue elsewhere when their leases expire. Threads and coroutines that do not end after that are not waited for.
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
from langlauf.cli.interpreter import SWITCH_SECONDS, exit_soon
from langlauf.cli.options import CommandError, errors_end_command

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Added to a signal's number by shells: the exit code of a process that the signal ended.
_SIGNAL_EXIT_BASE = 128


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a program to its end; an error of Langlauf ends the command with its message."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with errors_end_command():
        uvloop.run(main)


@asynccontextmanager
async def running_until_stopped(app: Langlauf, stop: Callable[[], None]) -> AsyncIterator[None]:
    """Run an application while the block lasts; call `stop`, which should end it, at each of the first two signals."""
    runtime: Runtime | None = None

    def drain() -> None:
        stop()
        if runtime is not None:
            runtime.drain()

    def end_grace() -> None:
        stop()
        if runtime is not None:
            runtime.end_grace()

    exit_code = 1
    try:
        with handle_signals(drain, end_grace):
            async with app.lifespan():
                runtime = app.runtime
                yield
        if runtime is not None and runtime.held_attempts:
            raise CommandError(
                f"{runtime.held_attempts} attempts could not be released; they continue when their leases expire"
            )
        exit_code = 0
    finally:
        exit_soon(exit_code)


@contextmanager
def handle_signals(*steps: Callable[[], None]) -> Iterator[None]:
    """Take the next step at each signal; one more signal ends the process, even if the event loop hangs."""
    loop, left = asyncio.get_running_loop(), list(steps)

    def handle(number: int, _: FrameType | None) -> None:
        if not left:
            os._exit(_SIGNAL_EXIT_BASE + number)
        loop.call_soon_threadsafe(left.pop(0))

    for name in _SIGNALS:
        signal.signal(name, handle)
    try:
        yield
    finally:
        for name in _SIGNALS:  # the process is about to end: further signals change nothing
            signal.signal(name, signal.SIG_IGN)
