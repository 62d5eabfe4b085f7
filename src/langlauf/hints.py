"""Wake-ups inside the process. They carry ids, never data: a lost hint costs time, not correctness."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable

from langlauf.clock import monotonic

#: Wake-ups of workers within one tick are one, and those beyond the horizon are not kept; in seconds.
_TICK = 0.01
_HORIZON = 60.0
#: Events to set, by topic.
_Topics = defaultdict[str, set[asyncio.Event]]


class Hints:
    """Signals to waiting tasks of this process that something may have changed."""

    def __init__(self) -> None:
        self._work = asyncio.Event()
        self._attention = asyncio.Event()
        self._overdue = asyncio.Event()
        self._outbox = asyncio.Event()
        #: the next wake-ups of workers, by their time in units of `_TICK`
        self._wake_ups: set[int] = set()
        self._followers: _Topics = defaultdict(set)
        self._org_followers: _Topics = defaultdict(set)
        self.closing = asyncio.Event()
        #: how often there may have been a job to claim: where it stays the same, none has come to wait
        self.work_signals = 0
        self._signaled_at = monotonic()

    def work(self) -> None:
        """Signal that there may be a job to claim."""
        self._count_signal()
        self._work.set()

    def _count_signal(self) -> None:
        self.work_signals += 1
        self._signaled_at = monotonic()

    def claim_again(self) -> None:
        """Signal that a claim may bring more than the last one did, although no job came: a slot is free."""
        self._work.set()

    def work_after(self, seconds: float) -> None:
        """Signal after a delay that there may be a job to claim. One wake-up serves all jobs of the same moment.

        What is further away is left to those who read the store for it: a million jobs need no timers.
        """
        if seconds > _HORIZON:
            return
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds) / _TICK)
        if tick not in self._wake_ups:
            self._wake_ups.add(tick)
            loop.call_at(tick * _TICK, self._wake_up, tick)

    def _wake_up(self, tick: int) -> None:
        self._wake_ups.discard(tick)
        self.work()

    def attention(self) -> None:
        """Signal that a running job may have to be canceled."""
        self._attention.set()

    def overdue(self) -> None:
        """Signal that a job may have to be reclaimed from its worker, or may be too late to start."""
        self._overdue.set()

    def overdue_after(self, seconds: float) -> None:
        """Signal after a delay that a job may have to be reclaimed from its worker."""
        asyncio.get_running_loop().call_later(seconds, self._overdue.set)

    def outbox(self) -> None:
        """Signal that there may be a message to send."""
        self._outbox.set()

    def changed(self, job_ids: Iterable[str]) -> None:
        """Signal that these jobs may have changed."""
        for job_id in job_ids:
            for event in self._followers.get(job_id, ()):
                event.set()

    def org_changed(self, org_ids: Iterable[str]) -> None:
        """Signal that some job of these orgs may have changed, and that there may be a message to send."""
        self._outbox.set()
        for org_id in org_ids:
            for event in self._org_followers.get(org_id, ()):
                event.set()

    async def wait_for_work(self, seconds: float) -> None:
        """Return when there may be work, or after the timeout.

        After so long without a signal there may be some all the same, also where waits were cut short by `claim_again`.
        """
        if not await _wait(self._work, seconds) or monotonic() - self._signaled_at >= seconds:
            self._count_signal()

    async def wait_for_attention(self, seconds: float) -> None:
        """Return when a running job may have to be canceled, or after the timeout."""
        await _wait(self._attention, seconds)

    async def wait_for_overdue(self, seconds: float) -> None:
        """Return when a job may have to be reclaimed, or after the timeout."""
        await _wait(self._overdue, seconds)

    async def wait_for_outbox(self, seconds: float) -> None:
        """Return when there may be a message to send, or after the timeout."""
        await _wait(self._outbox, seconds)

    def follow(self, job_id: str, event: asyncio.Event) -> None:
        """Set the event at each change of a job. Follow first, then read, then wait: nothing is missed."""
        self._followers[job_id].add(event)

    def unfollow(self, job_id: str, event: asyncio.Event) -> None:
        """Stop setting the event."""
        _discard(self._followers, job_id, event)

    def follow_org(self, org_id: str, event: asyncio.Event) -> None:
        """Set the event at each change of any job of an org."""
        self._org_followers[org_id].add(event)

    def unfollow_org(self, org_id: str, event: asyncio.Event) -> None:
        """Stop setting the event."""
        _discard(self._org_followers, org_id, event)

    def close(self) -> None:
        """Wake all waiting tasks, because the process is about to stop."""
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


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set in time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
