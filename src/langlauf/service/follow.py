"""Following jobs: read, wait until somebody says that it is worth reading again, read.

Whoever writes in this process says so at once. What other processes write is seen by one look per second at all jobs
that are followed, whoever follows them; a follower that nothing happens to costs a row in that look. A follower that
missed every hint is still right: it reads what is stored, and a wake-up carries no facts.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from langlauf.domain.errors import StoreError, TurnedAway
from langlauf.domain.views import JobView, Pulse
from langlauf.hints import Hints
from langlauf.service.places import Places
from langlauf.service.read import Reads
from langlauf.service.tenant import Caller
from langlauf.store.protocol import Store
from langlauf.telemetry import Fact, tell

#: How often the followed jobs are looked at.
LOOK_SECONDS = 1.0


class Follower:
    """Somebody who waits for a job. `event` is set when it is worth looking."""

    __slots__ = ("_matters", "caller", "event", "job", "left", "turned_away")

    def __init__(
        self, caller: Caller, job: tuple[str, str], event: asyncio.Event, matters: Callable[[Pulse | None], bool]
    ) -> None:
        self.caller = caller
        #: org and id of the job
        self.job = job
        self.event = event
        self._matters = matters
        #: the client went away
        self.left = False
        #: the caller may no longer see it
        self.turned_away = False

    def look(self, pulse: Pulse | None) -> None:
        """Wakes up where that is news; no pulse means that the job is gone."""
        if self._matters(pulse):
            self.event.set()

    def leave(self) -> None:
        """The client went away."""
        self.left = True
        self.event.set()

    def turn_away(self) -> None:
        """The caller may no longer see the job; it is told once."""
        if not self.turned_away:
            self.turned_away = True
            self.event.set()


#: Tells a follower when its client has gone.
Watch = Callable[[Follower], Coroutine[Any, Any, None]]


class Followers:
    """Everybody who follows a job in this process. Nobody holds anything of the store while waiting.

    `allowed` is asked at every look whether a caller may stay; it answers from memory.
    """

    def __init__(
        self,
        store: Store,
        reads: Reads,
        hints: Hints,
        places: Places,
        *,
        allowed: Callable[[Caller], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._reads = reads
        self._hints = hints
        self._allowed = allowed
        self._present: set[Follower] = set()
        self._blind = False
        self.places = places

    @property
    def closing(self) -> bool:
        """Whether the program is about to stop, so that nobody is waited for any more."""
        return self._hints.closing.is_set()

    @contextmanager
    def following(self, caller: Caller, job_id: str, matters: Callable[[Pulse | None], bool]) -> Iterator[Follower]:
        """Follows a job for as long as the block lasts: clear the event, read, then wait, and nothing is missed.

        `matters` tells whether a pulse is news to the one who follows, compared with what was last read.
        """
        with self._hints.following(job_id) as event:
            follower = Follower(caller, (caller.org_id, job_id), event, matters)
            self._present.add(follower)
            try:
                yield follower
            finally:
                self._present.discard(follower)

    async def look(self) -> None:
        """Wakes those whose job changed elsewhere, and those who may no longer see it."""
        for follower in list(self._present):
            if not await self._allowed(follower.caller):
                follower.turn_away()
        present = list(self._present)
        try:
            pulses = await self._store.pulses(list({follower.job for follower in present})) if present else {}
        except StoreError as error:
            if not self._blind:  # once, not every second that the store is away
                tell(Fact.STORE_UNAVAILABLE, logging.ERROR, reason=str(error))
            self._blind = True
            return
        self._blind = False
        for follower in present:
            follower.look(pulses.get(follower.job))

    async def until(
        self,
        caller: Caller,
        job_id: str,
        seconds: float,
        enough: Callable[[JobView], bool],
        *,
        poll: Watch | None = None,
    ) -> JobView | None:
        """The job as soon as it is as wished, or as it is when the time is over or the program stops.

        A `poll` only looks: waiting takes a place (`NoPlace` where none is left), the right to stay (`TurnedAway`), and
        a client that is still there, which the poll watches.
        """
        deadline = time.monotonic() + seconds
        reads = self._reads.of(caller)
        view: JobView | None = None
        watching: asyncio.Task[None] | None = None

        def matters(pulse: Pulse | None) -> bool:
            return view is not None and (pulse is None or _differs(view, pulse, enough))

        with self.following(caller, job_id, matters) as follower, ExitStack() as stay:
            while True:
                follower.event.clear()
                view = await reads.job(job_id)
                left = deadline - time.monotonic()
                if poll and follower.turned_away:
                    raise TurnedAway
                if view is None or enough(view) or left <= 0 or self.closing or follower.left:
                    return view
                if poll and watching is None:
                    stay.enter_context(self.places.take(caller.org_id, "poll"))
                    watching = asyncio.create_task(poll(follower), name="poll client")
                    stay.callback(watching.cancel)
                follower.job = (view.job.org_id, job_id)
                try:
                    async with asyncio.timeout(left):
                        await follower.event.wait()
                except TimeoutError:
                    continue


def _differs(view: JobView, pulse: Pulse, enough: Callable[[JobView], bool]) -> bool:
    """Whether a job changed since it was read, or is as wished now that time has passed."""
    job = view.job
    known = (job.event_seq, job.result_expired_at is not None, job.events_expired_at is not None)
    seen = (pulse.event_seq, pulse.result_expired, pulse.events_expired)
    return known != seen or enough(JobView(job, pulse.lease_expires_at))
