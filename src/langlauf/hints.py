"""In-process wake-ups for workers and followers. They carry ids, never facts: a lost hint costs time, not truth."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Hints:
    """Tells whoever waits in this process that it is worth looking again."""

    def __init__(self) -> None:
        self._work = asyncio.Event()
        self._followers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.closing = asyncio.Event()

    def work(self) -> None:
        """There may be something to claim."""
        self._work.set()

    def changed(self, job_ids: Iterable[str]) -> None:
        """These jobs may look different now."""
        for job_id in job_ids:
            for event in self._followers.get(job_id, ()):
                event.set()

    async def wait_for_work(self, seconds: float) -> None:
        """Returns when there may be work, at the latest after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._work.wait()
        except TimeoutError:
            pass
        self._work.clear()

    @contextmanager
    def following(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at each change of a job. Enter first, then read, then wait: nothing is missed."""
        event = asyncio.Event()
        self._followers[job_id].add(event)
        try:
            yield event
        finally:
            followers = self._followers[job_id]
            followers.discard(event)
            if not followers:
                del self._followers[job_id]

    def close(self) -> None:
        """The process is about to stop: everybody who waits is let go."""
        self.closing.set()
        self._work.set()
        for followers in self._followers.values():
            for event in followers:
                event.set()
