"""The one place that wires: settings, store, use cases, worker, upkeep."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from langlauf.analysis.registry import Registry
from langlauf.clock import Clock, SystemClock
from langlauf.hints import Hints
from langlauf.service.control import Control
from langlauf.service.estimates import Estimates
from langlauf.service.follow import Followers
from langlauf.service.read import Reads
from langlauf.service.services import Services
from langlauf.service.submit import Submissions
from langlauf.settings import Settings
from langlauf.store.location import resolve_sqlite_path
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.importing import import_v1
from langlauf.telemetry import Fact, tell
from langlauf.upkeep.periodic import Periodic
from langlauf.upkeep.retention import clean_up
from langlauf.upkeep.sweep import sweep_once
from langlauf.worker.loop import Worker


class Runtime:
    """A running application: its use cases, and whether its parts are alive."""

    def __init__(self, store: Store, services: Services, hints: Hints, parts: list[Worker | Periodic]) -> None:
        self.store = store
        self.services = services
        self.hints = hints
        self._parts = parts

    def alive(self) -> bool:
        """Whether every worker and every duty of this process goes on."""
        return all(part.alive for part in self._parts)


async def open_store(settings: Settings, clock: Clock, hints: Hints, default_analysis: str = "address") -> Store:
    """Opens the store that the settings name; a store of the earlier system is imported first, once."""
    path, earlier = resolve_sqlite_path(settings.store_path)
    if earlier is not None:
        report = await asyncio.to_thread(import_v1, path, earlier, default_analysis=default_analysis)
        if report.imported:
            tell(Fact.STORE_IMPORTED, source=str(earlier), jobs=report.jobs)
    return await SqliteStore.open(path, clock=clock, hints=hints)


def make_services(store: Store, registry: Registry, settings: Settings, hints: Hints, clock: Clock) -> Services:
    """The use cases over a store."""
    estimates = Estimates(store, registry, settings)
    submissions = Submissions(store, registry, settings, estimates, clock)
    return Services(
        registry,
        submissions,
        Control(store, registry, submissions),
        Reads(store, settings, estimates, clock),
        Followers(store, hints),
    )


async def _stop_all(parts: list[Worker | Periodic]) -> None:
    """Side by side: the grace is one for all, and nobody claims what another gives back."""
    await asyncio.gather(*(part.stop() for part in parts))


@asynccontextmanager
async def running(registry: Registry, settings: Settings) -> AsyncIterator[Runtime]:
    """Opens everything, starts what works in the background, and stops it in the right order."""
    clock, hints = SystemClock(), Hints()
    async with AsyncExitStack() as stack:
        store = await open_store(settings, clock, hints, registry.default or "address")
        stack.push_async_callback(store.close)
        services = make_services(store, registry, settings, hints, clock)
        parts: list[Worker | Periodic] = [
            Periodic("sweep", settings.sweep_seconds, lambda: sweep_once(store, settings)),
            Periodic("retention", settings.retention_every, lambda: clean_up(store, settings.retention, dry_run=False)),
        ]
        parts += [Worker(store, registry, settings, hints, clock) for _ in range(settings.workers)]
        started: list[Worker | Periodic] = []
        stack.push_async_callback(_stop_all, started)
        for part in parts:
            await part.start()
            started.append(part)
        stack.callback(hints.close)
        tell(Fact.SERVER_STARTED, store=settings.store_path, workers=settings.workers)
        yield Runtime(store, services, hints, parts)
        tell(Fact.SERVER_STOPPED, logging.INFO)
