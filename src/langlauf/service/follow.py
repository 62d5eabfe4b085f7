"""Following jobs: read, wait until somebody says that it is worth reading again, read.

Whoever writes in this process says so at once. What other processes write is seen by one look per second at all jobs
that are followed, whoever follows them; a follower that nothing happens to costs a row in that look. A follower that
missed every hint is still right: it reads what is stored, and a wake-up carries no facts.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Protocol, TypeVar

from langlauf.domain.errors import StoreError, TurnedAway
from langlauf.domain.views import JobView, Pulse
from langlauf.hints import Hints
from langlauf.service.places import Places
from langlauf.service.read import Reads
from langlauf.service.sharing import SharedReads
from langlauf.service.tenant import Caller
from langlauf.store.protocol import Store
from langlauf.telemetry import tell_store_failed

#: How often the followed jobs are looked at.
LOOK_SECONDS = 1.0


P = TypeVar("P")
T = TypeVar("T")


class Follower(Generic[P]):
    """Somebody who waits for a job, or for anything of an org. `event` is set when it is worth looking."""

    __slots__ = ("_matters", "caller", "event", "job", "left", "turned_away")

    def __init__(
        self, caller: Caller, job: tuple[str, str], event: asyncio.Event, matters: Callable[[P], bool]
    ) -> None:
        self.caller = caller
        #: org and id of the job; no id where it is about all of the org
        self.job = job
        self.event = event
        self._matters = matters
        #: the client went away
        self.left = False
        #: the caller may no longer see it
        self.turned_away = False

    def look(self, pulse: P) -> None:
        """Wakes up where that is news; of a job that is gone there is no pulse."""
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


JobFollower = Follower[Pulse | None]
OrgFollower = Follower[str]


class OrgNews:
    """Tells whether an org's mark is another one than at the last look, or whether to look again in any case."""

    def __init__(self) -> None:
        self._mark: str | None = None
        #: something is there that may not be read yet, and nobody says when it may be
        self.held = False

    def __call__(self, mark: str) -> bool:
        other, self._mark = mark != self._mark, mark
        return other or self.held


class Leaves(Protocol):
    """Whoever waits for something on behalf of a client."""

    def leave(self) -> None:
        """The client went away."""


#: Tells a follower when its client has gone.
Watch = Callable[[Leaves], Coroutine[Any, Any, None]]


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
        self._present: set[JobFollower] = set()
        self._of_orgs: set[OrgFollower] = set()
        self._marks: SharedReads[str] = SharedReads(lambda _: False)
        self._blind = False
        self.places = places

    @property
    def closing(self) -> bool:
        """Whether the program is about to stop, so that nobody is waited for any more."""
        return self._hints.closing.is_set()

    @contextmanager
    def following(
        self,
        caller: Caller,
        job_id: str,
        matters: Callable[[Pulse | None], bool],
        event: asyncio.Event | None = None,
    ) -> Iterator[JobFollower]:
        """Follows a job for as long as the block lasts: clear the event, read, then wait, and nothing is missed.

        `matters` tells whether a pulse is news to the one who follows, compared with what was last read.
        """
        with self._hints.following(job_id, event) as mine:
            follower: JobFollower = Follower(caller, (caller.org_id, job_id), mine, matters)
            self._present.add(follower)
            try:
                yield follower
            finally:
                self._present.discard(follower)

    @contextmanager
    def following_org(
        self, caller: Caller, matters: Callable[[str], bool], event: asyncio.Event | None = None
    ) -> Iterator[OrgFollower]:
        """Follows all jobs of the caller's org in the same way; `matters` is asked about its mark."""
        with self._hints.following_org(caller.org_id, event) as mine:
            follower: OrgFollower = Follower(caller, (caller.org_id, ""), mine, matters)
            self._of_orgs.add(follower)
            try:
                yield follower
            finally:
                self._of_orgs.discard(follower)

    async def mark(self, caller: Caller) -> str:
        """The mark of the caller's org, another one after any change of its jobs; who asks at once shares a look."""
        org_id = caller.org_id

        async def read() -> str:
            return (await self._store.org_pulses([org_id]))[org_id]

        return await self._marks.get(org_id, read)

    async def look(self) -> None:
        """Wakes those whose job or org changed elsewhere, and those who may no longer see it."""
        everybody: list[JobFollower | OrgFollower] = [*self._present, *self._of_orgs]
        for one in everybody:
            if not await self._allowed(one.caller):
                one.turn_away()
        present, of_orgs = list(self._present), list(self._of_orgs)
        orgs = list({follower.caller.org_id for follower in of_orgs})
        try:
            pulses = await self._store.pulses(list({follower.job for follower in present})) if present else {}
            marks = await self._store.org_pulses(orgs) if orgs else {}
        except StoreError as error:
            if not self._blind:  # once, not every second that the store is away
                tell_store_failed(error)
            self._blind = True
            return
        self._blind = False
        for follower in present:
            follower.look(pulses.get(follower.job))
        for of_org in of_orgs:
            of_org.look(marks[of_org.caller.org_id])

    async def until(
        self,
        caller: Caller,
        job_id: str,
        seconds: float,
        enough: Callable[[JobView], bool],
        *,
        poll: Watch | None = None,
        watch: Watch | None = None,
    ) -> JobView | None:
        """The job as soon as it is as wished, or as it is when the time is over, the client left or the program stops.

        For `poll` and `watch` see `held`.
        """
        reads = self._reads.of(caller)
        view: JobView | None = None

        def matters(pulse: Pulse | None) -> bool:
            return view is not None and (pulse is None or _differs(view, pulse, enough))

        with self.following(caller, job_id, matters) as follower:

            async def read() -> tuple[JobView | None, bool]:
                nonlocal view
                view = await reads.job(job_id)
                if view is None:
                    return None, True
                follower.job = (view.job.org_id, job_id)
                return view, enough(view)

            return await self.held(follower, seconds, read, poll=poll, watch=watch)

    async def held(
        self,
        follower: "JobFollower | OrgFollower",
        seconds: float,
        read: Callable[[], Awaitable[tuple[T, bool]]],
        *,
        poll: Watch | None = None,
        watch: Watch | None = None,
    ) -> T:
        """What is read, as soon as that is said to be enough, or when the time is over or the program stops.

        A `poll` only looks: waiting takes a place (`NoPlace` where none is left), the right to stay (`TurnedAway`), and
        a client that is still there, which the poll watches. A `watch` does no more than that last: its caller has a
        place already.
        """
        watches = poll or watch
        deadline = time.monotonic() + seconds
        watching: asyncio.Task[None] | None = None
        with ExitStack() as stay:
            while True:
                follower.event.clear()
                found, enough = await read()
                left = deadline - time.monotonic()
                if poll and follower.turned_away:
                    raise TurnedAway
                if enough or left <= 0 or self.closing or follower.left:
                    return found
                if watches and watching is None:
                    if poll:
                        stay.enter_context(self.places.take(follower.caller.counted_as, "poll"))
                    watching = asyncio.create_task(watches(follower), name="poll client")
                    stay.callback(watching.cancel)
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
