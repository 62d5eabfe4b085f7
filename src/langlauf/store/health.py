"""Whether a store accepts writes, and why not: reported by drivers, read by readiness, maintenance and the log.

A store is healthy, or it has one problem. A failed write makes it unhealthy; from then on a probe is written every
second, and the first one that succeeds makes it healthy again. Damage is the exception: nothing more is written
until the program restarts.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreError, StoreUnavailable, StoreUnhealthy
from langlauf.telemetry.log import LogEvent, log_event

#: Seconds between two health checks.
WATCH_SECONDS = 1.0


class StoreProblem(StrEnum):
    """Why a store accepts no writes."""

    READ_ONLY = "read_only"
    FULL = "full"
    REMOVED = "removed"
    DAMAGED = "damaged"
    AWAY = "away"


class ProblemText(NamedTuple):
    """The sentence for callers, which names no path and no host, and the remedy for operators."""

    sentence: str
    remedy: str


PROBLEM_TEXTS = {
    StoreProblem.READ_ONLY: ProblemText(
        "The store can only be read.",
        "make the file and its folder writable for this user, or name a database that takes writes",
    ),
    StoreProblem.FULL: ProblemText("The disk of the store is full.", "make room on the disk"),
    StoreProblem.REMOVED: ProblemText(
        "The file of the store was removed or replaced.",
        "stop every server and worker, put the file back with `langlauf restore`, and start again",
    ),
    StoreProblem.DAMAGED: ProblemText(
        "The store is damaged; nothing more is written to it.",
        "stop every server and worker, and put back the newest backup: langlauf restore BACKUP --force",
    ),
    StoreProblem.AWAY: ProblemText(
        "The store does not take writes.", "run `langlauf doctor`; writes go on by themselves when it is back"
    ),
}


async def _nothing() -> None:
    """Do nothing."""


class StoreHealth:
    """The health of one store in this process.

    `probe` is a small write, `look` notices what can be noticed without one, and `inspect` looks for
    damage when a program starts. Drivers report from their threads.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        *,
        look: Callable[[], Awaitable[None]] = _nothing,
        inspect: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._probe = probe
        self._look = look
        self._inspect = inspect
        self._lock = threading.Lock()
        self._problem: StoreProblem | None = None
        self._since = 0.0
        self._refused = 0
        #: a server logs problems; a command prints its error
        self._serving = False

    @property
    def problem(self) -> StoreProblem | None:
        """What is wrong right now; None where all is well."""
        return self._problem

    @property
    def damaged(self) -> bool:
        """Whether nothing may be written any more."""
        return self._problem is StoreProblem.DAMAGED

    def report(self, problem: StoreProblem, reason: str, *, count: int = 1) -> StoreUnhealthy:
        """Note that so many operations failed, and return the error for their callers. Logged when it is new."""
        with self._lock:
            self._refused += count
            known = self._problem in (problem, StoreProblem.DAMAGED)
            if self._problem is None:
                self._since = monotonic()
            if not known:
                self._problem = problem
        if not known and self._serving:
            remedy = PROBLEM_TEXTS[problem].remedy
            log_event(LogEvent.STORE_UNAVAILABLE, logging.ERROR, problem=problem.value, reason=reason, next=remedy)
        return StoreUnhealthy(reason)

    async def look(self) -> StoreProblem | None:
        """Notice what can be noticed without a write, and return what is wrong."""
        await self._look()
        return self._problem

    async def admit(self) -> None:
        """Raise `StoreUnavailable`, with the remedy, where a program that starts should not serve this store."""
        try:
            await self._inspect()
            await self._probe()
        except StoreUnhealthy as error:
            raise StoreUnavailable(f"{error}: {PROBLEM_TEXTS[self._problem or StoreProblem.AWAY].remedy}") from error
        self._serving = True

    async def watch(self) -> None:
        """Look once; where the store is unwell, try whether it takes writes again."""
        if await self.look() is None or self.damaged:
            return
        try:
            await self._probe()
        except StoreError:
            return  # logged when it began
        self._recover()

    def _recover(self) -> None:
        with self._lock:
            if self._problem is None or self.damaged:
                return
            was, refused = self._problem, self._refused
            seconds = monotonic() - self._since
            self._problem, self._refused = None, 0
        log_event(LogEvent.STORE_BACK, problem=was.value, seconds=round(seconds, 1), refused=refused)
