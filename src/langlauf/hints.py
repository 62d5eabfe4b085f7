"""Wake-ups inside the process. They carry ids, never facts: a lost hint costs time, not truth."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

#: Whom to wake, by what they follow.
_Topics = defaultdict[str, set[asyncio.Event]]


class Hints:
    """Tells whoever waits in this process that it is worth looking again."""

    def __init__(self) -> None:
        self._work = asyncio.Event()
        self._attention = asyncio.Event()
        self._overdue = asyncio.Event()
        self._outbox = asyncio.Event()
        self._followers: _Topics = defaultdict(set)
        self._org_followers: _Topics = defaultdict(set)
        self.closing = asyncio.Event()

    def work(self) -> None:
        """There may be something to claim."""
        self._work.set()

    def work_after(self, seconds: float) -> None:
        """There will be something to claim in a while."""
        asyncio.get_running_loop().call_later(seconds, self.work)

    def attention(self) -> None:
        """Somebody wants something of a job that runs."""
        self._attention.set()

    def overdue_after(self, seconds: float) -> None:
        """In a while a job may have to be taken back from its worker."""
        asyncio.get_running_loop().call_later(seconds, self._overdue.set)

    def outbox(self) -> None:
        """There may be something to send."""
        self._outbox.set()

    def changed(self, job_ids: Iterable[str]) -> None:
        """These jobs may look different now."""
        for job_id in job_ids:
            for event in self._followers.get(job_id, ()):
                event.set()

    def org_changed(self, org_ids: Iterable[str]) -> None:
        """Some job of these orgs may look different now, and somebody outside may have to be told."""
        self._outbox.set()
        for org_id in org_ids:
            for event in self._org_followers.get(org_id, ()):
                event.set()

    async def wait_for_work(self, seconds: float) -> None:
        """Returns when there may be work, at the latest after so many seconds."""
        await _wait(self._work, seconds)

    async def wait_for_attention(self, seconds: float) -> None:
        """Returns when a running job may be wished to stop, at the latest after so many seconds."""
        await _wait(self._attention, seconds)

    async def wait_for_overdue(self, seconds: float) -> None:
        """Returns when a job may have to be taken back, at the latest after so many seconds."""
        await _wait(self._overdue, seconds)

    async def wait_for_outbox(self, seconds: float) -> None:
        """Returns when there may be something to send, at the latest after so many seconds."""
        await _wait(self._outbox, seconds)

    def follow(self, job_id: str, event: asyncio.Event) -> None:
        """Set the event at each change of a job. First follow, then read, then wait: nothing is missed."""
        self._followers[job_id].add(event)

    def unfollow(self, job_id: str, event: asyncio.Event) -> None:
        """Leave the event alone from here on."""
        _discard(self._followers, job_id, event)

    def follow_org(self, org_id: str, event: asyncio.Event) -> None:
        """The same for each change of any job of an org."""
        self._org_followers[org_id].add(event)

    def unfollow_org(self, org_id: str, event: asyncio.Event) -> None:
        """Leave the event alone from here on."""
        _discard(self._org_followers, org_id, event)

    def close(self) -> None:
        """The process is about to stop: everybody who waits is let go."""
        self.closing.set()
        self._work.set()
        self._attention.set()
        self._outbox.set()
        for followers in (*self._followers.values(), *self._org_followers.values()):
            for event in followers:
                event.set()


def _discard(topics: _Topics, topic: str, event: asyncio.Event) -> None:
    topics[topic].discard(event)
    if not topics[topic]:
        del topics[topic]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
    event.clear()
