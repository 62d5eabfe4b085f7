"""Following jobs: read, wait until somebody says that it is worth reading again, read.

Whoever writes in this process says so at once. What other processes write is seen by one look per second at all jobs
that are followed, whoever follows them; a follower that nothing happens to costs a row in that look. A follower that
missed every hint is still right: it reads what is stored, and a wake-up carries no facts.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Generic, Literal, Protocol, Self, TypeVar

from langlauf.auth.caller import Caller
from langlauf.domain.errors import AccessLost, StoreError
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.hints import Hints
from langlauf.service.read import Reads
from langlauf.service.request_limits import StreamSlots
from langlauf.service.single_flight import SingleFlight
from langlauf.store.protocol import Store
from langlauf.telemetry.log import log_store_failure

#: How often the followed jobs are looked at.
LOOK_SECONDS = 1.0


P = TypeVar("P")
T = TypeVar("T")


class Signal(asyncio.Event):
    """An event that one waits for, without the queue for many that every other one has."""

    def __init__(self) -> None:
        self._value = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake who waits."""
        self._value = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> Literal[True]:
        """Return once it is set."""
        while not await self.wait_until(float("inf")):
            pass
        return True

    async def wait_until(self, moment: float) -> bool:
        """Return whether it was set, by that time of the loop at the latest."""
        if self._value:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if moment == float("inf") else loop.call_at(moment, self._give_up, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return self._value

    @staticmethod
    def _give_up(waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_result(None)


class Follower(Generic[P]):
    """A caller that waits for a job, or for anything of an org, until the block that it opens is left.

    `event` is set when it is worth looking.
    """

    __slots__ = ("_gone", "_matters", "caller", "event", "job", "left", "turned_away")

    def __init__(
        self,
        caller: Caller,
        job: tuple[str, str],
        event: Signal,
        matters: Callable[[P], bool],
        gone: Callable[["Follower[P]"], None],
    ) -> None:
        self.caller = caller
        #: org and id of the job; no id where it is about all of the org
        self.job = job
        self.event = event
        self._matters = matters
        self._gone = gone
        #: the client went away
        self.left = False
        #: the caller may no longer see it
        self.turned_away = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gone(self)

    def look(self, pulse: P) -> None:
        """CommitHints up where that is news; of a job that is gone there is no pulse."""
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


JobFollower = Follower[JobFingerprint | None]
OrgFollower = Follower[str]


class OrgChanges:
    """Tells whether an org's mark is another one than at the last look, or whether to look again in any case."""

    def __init__(self) -> None:
        self._mark: str | None = None
        #: something is there that may not be read yet, and nobody says when it may be
        self.held = False

    def __call__(self, mark: str) -> bool:
        other, self._mark = mark != self._mark, mark
        return other or self.held


class Disconnectable(Protocol):
    """Whoever waits for something on behalf of a client."""

    def leave(self) -> None:
        """The client went away."""


#: Begins to watch a client, to tell when it has gone; what it returns ends that.
Watch = Callable[[Disconnectable], Callable[[], object]]


class Followers:
    """Everybody who follows a job in this process. Nobody holds anything of the store while waiting.

    `allowed` is asked at every look whether a caller may stay; it answers from memory.
    """

    def __init__(
        self,
        store: Store,
        reads: Reads,
        hints: Hints,
        slots: StreamSlots,
        *,
        allowed: Callable[[Caller], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._reads = reads
        self._hints = hints
        self._allowed = allowed
        self._present: set[JobFollower] = set()
        self._of_orgs: set[OrgFollower] = set()
        self._marks: SingleFlight[str] = SingleFlight(lambda _: False)
        self._blind = False
        self.slots = slots

    @property
    def closing(self) -> bool:
        """Whether the program is about to stop, so that nobody is waited for any more."""
        return self._hints.closing.is_set()

    def following(
        self,
        caller: Caller,
        job_id: str,
        matters: Callable[[JobFingerprint | None], bool],
        event: Signal | None = None,
    ) -> JobFollower:
        """Follows a job for as long as the block lasts: clear the event, read, then wait, and nothing is missed.

        `matters` tells whether a pulse is news to the one who follows, compared with what was last read.
        """
        follower: JobFollower = Follower(caller, (caller.org_id, job_id), event or Signal(), matters, self._left)
        self._hints.follow(job_id, follower.event)
        self._present.add(follower)
        return follower

    def following_org(self, caller: Caller, matters: Callable[[str], bool], event: Signal | None = None) -> OrgFollower:
        """Follows all jobs of the caller's org in the same way; `matters` is asked about its mark."""
        follower: OrgFollower = Follower(caller, (caller.org_id, ""), event or Signal(), matters, self._left_org)
        self._hints.follow_org(caller.org_id, follower.event)
        self._of_orgs.add(follower)
        return follower

    def _left(self, follower: JobFollower) -> None:
        self._hints.unfollow(follower.job[1], follower.event)
        self._present.discard(follower)

    def _left_org(self, follower: OrgFollower) -> None:
        self._hints.unfollow_org(follower.caller.org_id, follower.event)
        self._of_orgs.discard(follower)

    async def mark(self, caller: Caller) -> str:
        """The mark of the caller's org, another one after any change of its jobs; who asks at once shares a look."""
        org_id = caller.org_id

        async def read() -> str:
            return (await self._store.org_versions([org_id]))[org_id]

        return await self._marks.get(org_id, read)

    async def look(self) -> None:
        """CommitHints those whose job or org changed elsewhere, and those who may no longer see it."""
        everybody: list[JobFollower | OrgFollower] = [*self._present, *self._of_orgs]
        for one in everybody:
            if not await self._allowed(one.caller):
                one.turn_away()
        present, of_orgs = list(self._present), list(self._of_orgs)
        orgs = list({follower.caller.org_id for follower in of_orgs})
        try:
            pulses = await self._store.job_fingerprints(list({follower.job for follower in present})) if present else {}
            marks = await self._store.org_versions(orgs) if orgs else {}
        except StoreError as error:
            if not self._blind:  # once, not every second that the store is away
                log_store_failure(error)
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

        def matters(pulse: JobFingerprint | None) -> bool:
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

        A `poll` only looks: waiting takes a place (else `NoStreamSlot`), the right to stay (else `AccessLost`), and
        a client that is still there, which the poll watches. A `watch` does no more than that last: its caller has a
        place already.
        """
        watches = poll or watch
        deadline = time.monotonic() + seconds
        watched = False
        with ExitStack() as stay:
            while True:
                follower.event.clear()
                found, enough = await read()
                left = deadline - time.monotonic()
                if poll and follower.turned_away:
                    raise AccessLost
                if enough or left <= 0 or self.closing or follower.left:
                    return found
                if watches and not watched:
                    if poll:
                        stay.enter_context(self.slots.take(follower.caller.counted_as, "poll"))
                    stay.callback(watches(follower))
                    watched = True
                await follower.event.wait_until(asyncio.get_running_loop().time() + left)


def _differs(view: JobView, pulse: JobFingerprint, enough: Callable[[JobView], bool]) -> bool:
    """Whether a job changed since it was read, or is as wished now that time has passed."""
    job = view.job
    known = (job.event_seq, job.result_expired_at is not None, job.events_expired_at is not None)
    seen = (pulse.event_seq, pulse.result_expired, pulse.events_expired)
    return known != seen or enough(JobView(job, pulse.lease_expires_at))
