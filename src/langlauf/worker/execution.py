"""What the worker needs of whatever executes a function, and how a function can end."""

import asyncio
from typing import Protocol

from langlauf.domain.outcome import Completed, Crashed, Failed, Failure
from langlauf.worker.attempt import Stop

#: How a function ended by itself; None where its attempt was no longer the current one.
Ended = Completed | Failed | Failure | Crashed | None


class Execution(Protocol):
    """One function that runs."""

    #: done when the function has ended; it does not raise unless it was stopped
    ended: "asyncio.Task[Ended]"

    async def stop(self, why: Stop) -> None:
        """Returns when nothing computes any more, or when it was left alone after its grace."""
