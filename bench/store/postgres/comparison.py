"""Databases that differ in one thing, asked the same in turns: what differs in the answers' time is that thing."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from bench.store.postgres.fill import Filling, fill, org_name
from bench.store.postgres.usage import used_by
from langlauf.bench.postgres import connected, own_database
from langlauf.bench.rounds import RESULT, OnProgress, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore

#: Long enough that no lease ends while something is measured.
LEASE_SECONDS = 3_600.0
_EVENTS, _INLINE = 100, 256 * 1024
_chance = random.Random(7)  # noqa: S311 - which job is asked for is no secret


class Site:
    """One database with what it was filled with, and what was measured of it so far."""

    def __init__(self, label: str, url: str, store: PostgresStore, filling: Filling) -> None:
        self.label = label
        self.url = url
        self.store = store
        self.filling = filling
        self.max_running_org: int | None = None
        self.taken: dict[str, list[float]] = defaultdict(list)
        #: processor time of the database in seconds, all of one step
        self.used: dict[str, float] = {}
        self.finished_ids: list[tuple[str, str]] = []
        self._clock = SystemClock()

    @classmethod
    async def made(cls, stack: AsyncExitStack, server: str, label: str, filling: Filling, watch: OnProgress) -> Self:
        """Return a database of its own that lives as long as the stack."""
        url = await stack.enter_async_context(own_database(server))
        await fill(url, filling, watch)
        store = await PostgresStore.open(url, hints=Hints())
        stack.push_async_callback(store.close)
        return cls(label, url, store, filling)

    def labelled(self, label: str) -> Self:
        """Return the same database under another name, for what is measured later."""
        return type(self)(label, self.url, self.store, self.filling)

    async def claim(self, slots: int) -> float:
        """Seconds for a claim of so many. What it took is completed, and as much submitted again: the queue stays."""
        request = claim_request(
            slots, self.filling.names, lease_seconds=LEASE_SECONDS, max_running_org=self.max_running_org
        )
        began = time.perf_counter()
        claims = await self.store.claim(request)
        seconds = time.perf_counter() - began
        if len(claims) != slots:
            raise LanglaufError(f"a claim of the benchmark got {len(claims)} jobs instead of {slots}")
        await asyncio.gather(*(self._replace(claim) for claim in claims))
        return seconds / slots

    async def _replace(self, claim: Claim) -> None:
        await self.store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))
        await self.store.submit(new_job(self._clock, claim.lease.org_id, claim.analysis))

    async def submit(self) -> float:
        """Seconds for a submission of any of the orgs."""
        org = org_name(_chance.randrange(self.filling.orgs), self.filling.prefix)
        new = new_job(self._clock, org, _chance.choice(self.filling.names))
        began = time.perf_counter()
        await self.store.submit(new)
        return time.perf_counter() - began

    async def status(self) -> float:
        """Seconds for a look at one of some finished jobs."""
        org_id, job_id = _chance.choice(self.finished_ids)
        began = time.perf_counter()
        found = await self.store.tenant(org_id).status(job_id, events=_EVENTS, inline_limit=_INLINE)
        seconds = time.perf_counter() - began
        if found is None:
            raise LanglaufError("a finished job of the benchmark cannot be found")
        return seconds

    async def choose_finished(self, most: int) -> None:
        """Which jobs are looked at: some from anywhere in the history."""
        async with connected(self.url) as connection:
            rows = await connection.fetch(
                "SELECT org_id, job_id FROM job_inputs WHERE starts_with(org_id, $1)"
                " ORDER BY hashtext(job_id) LIMIT $2",
                f"{self.filling.prefix}-",
                most,
            )
        self.finished_ids = [tuple(row) for row in rows]


#: What is measured: its name, the kind of connection that it uses, how often, and how.
Step = tuple[str, str, int, Callable[[Site], Awaitable[float]]]


async def in_turns(sites: Sequence[Site], steps: Sequence[Step], watch: OnProgress) -> None:
    """Every site does the same thing before the next thing comes; who begins changes."""
    total, done = sum(times for _, _, times, _ in steps), 0
    async with AsyncExitStack() as stack:
        watchers = [await stack.enter_async_context(connected(site.url)) for site in sites]
        for name, kind, times, measure in steps:
            for site in sites:
                await measure(site)  # makes the plans of a connection
            before = [await used_by(watcher, kind) for watcher in watchers]
            for number in range(times):
                for site in sites if number % 2 else reversed(sites):
                    site.taken[name].append(await measure(site))
                watch(done := done + 1, total)
            for site, watcher, first in zip(sites, watchers, before, strict=True):
                site.used[name] = await used_by(watcher, kind) - first
