"""Tells other hosts what was committed here, by NOTIFY: after the commit, on a connection of its own, not too often.

A NOTIFY inside of the writes would make their commits wait for each other. A notification that is lost costs the others
one look: polling is always on.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from langlauf.clock import monotonic, new_id
from langlauf.domain.errors import StoreError
from langlauf.hints import Hints
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.news import CHANNEL, written

#: What happens within this time is told together; the first of it at once.
EVERY_SECONDS = 0.025
#: A notification that takes longer is not worth sending.
_PATIENCE = 1.0
#: Nothing is lost that a crash could not lose as well: nobody waits for the disk.
_SEND = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, news) FROM unnest($2::text[]) AS news"


class Notifier:
    """Wakes whoever waits in this process at once, and tells the other hosts. Stands where hints are given."""

    def __init__(self, hints: Hints, link: Link, *, others: bool) -> None:
        #: by this name the listener of this process knows what it need not hear
        self.sender = new_id()
        self._hints = hints
        self._link = link
        self._others = others
        self._work = False
        self._attention = False
        #: in the order they changed
        self._jobs: dict[str, None] = {}
        self._next_at = 0.0
        self._sending: asyncio.Task[None] | None = None

    def work(self) -> None:
        """There may be something to claim."""
        self._hints.work()
        self._work = True
        self._rouse()

    def work_after(self, seconds: float) -> None:
        """There will be something to claim in a while: here it is known when, other hosts look by themselves."""
        self._hints.work_after(seconds)

    def attention(self) -> None:
        """Somebody wants something of a job that runs."""
        self._hints.attention()
        self._attention = True
        self._rouse()

    def changed(self, job_ids: Iterable[str]) -> None:
        """These jobs may look different now."""
        changed = dict.fromkeys(job_ids)
        self._hints.changed(changed)
        self._jobs |= changed
        if changed:
            self._rouse()

    def org_changed(self, org_ids: Iterable[str]) -> None:
        """Something of these orgs may look different now; other hosts find it at their next look."""
        self._hints.org_changed(org_ids)

    async def finish(self) -> None:
        """Returns when all is told: jobs that were given back at the end are wanted elsewhere."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    def _rouse(self) -> None:
        if not self._others:
            self._take()
        elif self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="langlauf-notifier")

    def _take(self) -> dict[str, Any]:
        """What there is to tell; nothing of it is told again."""
        told = {"work": self._work, "attention": self._attention, "jobs": self._jobs}
        self._work, self._attention, self._jobs = False, False, {}
        return told

    async def _send_all(self) -> None:
        try:
            while self._work or self._attention or self._jobs:
                await asyncio.sleep(max(0.0, self._next_at - monotonic()))  # what comes meanwhile goes along
                self._next_at = monotonic() + EVERY_SECONDS
                await self._send(written(self.sender, **self._take()))
        finally:
            self._sending = None

    async def _send(self, payloads: list[str]) -> None:
        with suppress(StoreError):  # the listener tells of a database that is away
            await self._link.use(lambda connection: connection.fetch(_SEND, CHANNEL, payloads), patience=_PATIENCE)
