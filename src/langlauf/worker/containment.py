"""Keeps an analysis from ending the program: `sys.exit` in one of its tasks would otherwise leave the event loop."""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
#: Set in the context of an attempt, and so in every task that its code starts.
INSIDE_ATTEMPT: ContextVar[bool] = ContextVar("langlauf_inside_attempt", default=False)


async def contained(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine; its wish to end the program becomes an error of its own."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the analysis tried to end the program: {type(error).__name__}") from error


def contain_attempts(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the loop contain the tasks of attempts; all others are made as before."""
    before = loop.get_task_factory()
    if hasattr(before, "contains_attempts"):
        return

    def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Future[Any]:
        if INSIDE_ATTEMPT.get() and asyncio.iscoroutine(coroutine):
            coroutine = contained(coroutine)
        if before is not None:
            return before(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    make_task.contains_attempts = True  # type: ignore[attr-defined]  # a mark for the next one who comes here
    loop.set_task_factory(make_task)
