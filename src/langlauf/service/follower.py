"""Followers: who waits for changes of a job or an org, and the signal that wakes them."""

import asyncio
from collections.abc import Callable
from typing import Generic, Literal, Protocol, Self, TypeVar

from langlauf.auth.caller import Caller
from langlauf.domain.read_models import JobFingerprint

P = TypeVar("P")


class Signal(asyncio.Event):
    """An event with a single waiter, without the queue of `asyncio.Event`."""

    def __init__(self) -> None:
        self._value = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter."""
        self._value = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> Literal[True]:
        """Return once it is set."""
        while not await self.wait_until(float("inf")):
            pass
        return True

    async def wait_until(self, moment: float) -> bool:
        """Return whether it was set by that time of the loop."""
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
    """A caller that waits for changes of a job, or of an org, until its block ends.

    `event` is set when reading again is worthwhile.
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
        #: org and id of the job; an empty id for all jobs of the org
        self.job = job
        self.event = event
        self._matters = matters
        self._gone = gone
        #: whether the client disconnected
        self.left = False
        #: whether the caller lost access
        self.turned_away = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gone(self)

    def look(self, pulse: P) -> None:
        """Wake up where the fingerprint matters; it is None for a removed job."""
        if self._matters(pulse):
            self.event.set()

    def leave(self) -> None:
        """Record that the client disconnected."""
        self.left = True
        self.event.set()

    def turn_away(self) -> None:
        """Record that the caller lost access; wakes up once."""
        if not self.turned_away:
            self.turned_away = True
            self.event.set()


JobFollower = Follower[JobFingerprint | None]
OrgFollower = Follower[str]


class OrgChanges:
    """Whether the version of an org differs from the last one, or events are held back."""

    def __init__(self) -> None:
        self._mark: str | None = None
        #: whether events exist that may not be read yet, without a wake-up for the time when they may
        self.held = False

    def __call__(self, mark: str) -> bool:
        other, self._mark = mark != self._mark, mark
        return other or self.held


class Disconnectable(Protocol):
    """Waits for something on behalf of a client."""

    def leave(self) -> None:
        """Record that the client disconnected."""


#: Starts to watch a client for a disconnect; returns a function that stops it.
Watch = Callable[[Disconnectable], Callable[[], object]]


class Topic(Signal):
    """One job or org that a client watches. Setting it also sets the event of its watcher."""

    def __init__(self, job_id: str | None, watcher: Signal) -> None:
        super().__init__()
        self._watcher = watcher
        #: None for all jobs of the org
        self.job_id = job_id
        #: what was sent last: the number of a job's newest event, or the version of the org
        self.sent: int | str | None = None
        #: when it may be sent again
        self.next_at = 0.0
        self.set()

    def set(self) -> None:
        """Mark the topic as changed."""
        super().set()
        self._watcher.set()

    def is_news(self, pulse: JobFingerprint | None) -> bool:
        """Whether a job changed since it was sent; False for a removed job or one of another org."""
        return pulse is not None and pulse.event_seq != self.sent

    def is_other(self, mark: str) -> bool:
        """Whether an org changed since it was sent."""
        return mark != self.sent


class Watcher:
    """One client that watches several topics, with one event for all of them."""

    def __init__(self) -> None:
        self.event = Signal()
        self.topics: list[Topic] = []
        self.left = False
        self._members: list[JobFollower | OrgFollower] = []

    @property
    def turned_away(self) -> bool:
        """Whether the caller lost access to any topic."""
        return any(member.turned_away for member in self._members)

    def leave(self) -> None:
        """Record that the client disconnected."""
        self.left = True
        self.event.set()

    def add(self, topic: Topic, member: JobFollower | OrgFollower) -> None:
        """Add a topic."""
        self.topics.append(topic)
        self._members.append(member)
