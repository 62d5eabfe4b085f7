"""The composition root: wires settings, store, use cases, workers and maintenance."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from langlauf.analysis.registry import Registry
from langlauf.auth.credentials import JobTokens
from langlauf.auth.keyring import USES_EVERY_SECONDS, Authenticator, Keyring, KeyService
from langlauf.auth.rates import LimitMemory
from langlauf.auth.sessions import Sessions
from langlauf.background import DutyRecorder, PeriodicDuty
from langlauf.compat.v1_import import import_v1, name_jobs
from langlauf.compat.v1_records import UNNAMED
from langlauf.delivery.checked_http import ConnectionPolicy, Resolver, tls_context
from langlauf.delivery.mail import EmailChannel
from langlauf.delivery.sender import Channel, Sender, UnconfiguredChannel
from langlauf.delivery.webhook import WebhookChannel, WebhookTester
from langlauf.domain.delivery import ChannelName
from langlauf.domain.errors import LanglaufError, SettingsError, StoreError, StoreUnhealthy
from langlauf.domain.event import event_source
from langlauf.domain.health import RETENTION_DUTY, SWEEP_DUTY
from langlauf.domain.ssrf import allowed_networks
from langlauf.domain.webhook import ENDPOINT_SECRETS_PURPOSE, read_secret
from langlauf.hints import Hints
from langlauf.maintenance.duties import EVERY_SECONDS, Alarm, apply_retention, sweep_once
from langlauf.service.control import Control, Holds
from langlauf.service.follow import LOOK_SECONDS, Followers
from langlauf.service.notifications import Inbox, MailReceivers
from langlauf.service.overview import MetricsSnapshot, Overviews
from langlauf.service.provenance import Provenances
from langlauf.service.read import Reads
from langlauf.service.request_limits import ResponseMemory, StreamSlots
from langlauf.service.schedules import LOOK_SECONDS as SCHEDULES_EVERY
from langlauf.service.schedules import ScheduleFirer, ScheduleService
from langlauf.service.services import Services
from langlauf.service.start_times import Estimates, Pauses
from langlauf.service.submit import SubmitService
from langlauf.service.webhooks import WebhookService
from langlauf.settings import Settings
from langlauf.store.blobs.large import open_blobs
from langlauf.store.blobs.protocol import Blobs
from langlauf.store.health import WATCH_SECONDS
from langlauf.store.protocol import Store
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.tools.location import PostgresLocation, SqliteLocation, StoreLocation, parse_location
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import register_analyses
from langlauf.telemetry.tracing import end_tracing, set_up_tracing
from langlauf.worker import processes
from langlauf.worker.claimer import Claimer
from langlauf.worker.worker import Worker
from langlauf.worker.worker_process import WorkerProcess


class Runtime:
    """A running application: its use cases, the liveness of its parts, and its shutdown."""

    def __init__(
        self,
        store: Store,
        services: Services,
        hints: Hints,
        workers: Sequence[Worker | WorkerProcess],
        duties: Sequence[PeriodicDuty],
    ) -> None:
        self.store = store
        self.services = services
        self.hints = hints
        self._workers = workers
        self._parts: list[Worker | WorkerProcess | PeriodicDuty] = [*duties, *workers]
        self._started: list[Worker | WorkerProcess | PeriodicDuty] = []
        self._stopping: asyncio.Future[Any] | None = None

    def alive(self) -> bool:
        """Whether all workers and periodic duties of this process are running."""
        return all(part.alive for part in self._parts)

    @property
    def held_attempts(self) -> int:
        """Return how many attempts its workers hold; after the shutdown, those that could not be released."""
        return sum(worker.running for worker in self._workers)

    async def start(self) -> None:
        """Start the background parts."""
        for part in self._parts:
            await part.start()
            self._started.append(part)

    def drain(self) -> None:
        """Begin the shutdown: release waiting requests, claim nothing more, give running attempts their grace.

        All parts stop concurrently: they share one grace, and none claims what another releases.
        """
        self.hints.close()
        if self._stopping is None:
            self._stopping = asyncio.gather(*(part.stop() for part in self._started))

    def end_grace(self) -> None:
        """End the grace of a drain: release running attempts now."""
        for worker in self._workers:
            worker.end_grace()

    async def stop(self) -> None:
        """Stop, or wait for the end of a drain that has begun."""
        self.drain()
        if self._stopping is not None:
            await self._stopping


async def open_store(settings: Settings, hints: Hints, default_analysis: str | None = None) -> Store:
    """Open the store of the settings; a store of the earlier system is imported first, once.

    Its jobs belong to the application's default analysis. Commands without an application leave them without one, and
    the next server assigns it.
    """
    place = parse_location(settings.store_path)
    if place == SqliteLocation(MEMORY) and settings.blobs is not None:
        raise SettingsError("LANGLAUF_BLOBS needs a lasting store: set LANGLAUF_STORE to a file or a database")
    blobs = blobs_of(settings)
    if isinstance(place, SqliteLocation):
        await asyncio.to_thread(_import_earlier_store, place, default_analysis)
    return with_blobs(await open_store_at(place, hints, notify=settings.notify), blobs, settings)


def _import_earlier_store(place: SqliteLocation, default_analysis: str | None) -> None:
    """Import the earlier store of a location, and assign the analysis to jobs imported before."""
    if place.earlier is not None:
        report = import_v1(place.path, place.earlier, default_analysis=default_analysis or UNNAMED)
        if report.imported:
            log_event(LogEvent.STORE_IMPORTED, source=str(place.earlier), jobs=report.jobs)
    if default_analysis is not None and place.path != MEMORY and Path(place.path).exists():
        name_jobs(place.path, default_analysis)


async def open_store_at(place: StoreLocation, hints: Hints, *, notify: bool = False) -> Store:
    """Open the store at a location with its driver; with `notify`, hosts wake each other if they can."""
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.driver import PostgresStore  # its library comes with an extra

        return await PostgresStore.open(place.url, hints=hints, notify=notify)
    return await SqliteStore.open(place.path, hints=hints)


def blobs_of(settings: Settings) -> Blobs | None:
    """Return the blob storage for large results, or None."""
    return None if settings.blobs is None else open_blobs(settings.blobs, seconds=settings.blob_seconds)


def with_blobs(store: Store, blobs: Blobs | None, settings: Settings) -> Store:
    """Return a store whose large results are blobs."""
    if blobs is not None:
        store.blobs.use(
            blobs,
            largest_inline=settings.inline_result,
            seconds=settings.blob_seconds,
            garbage_age=settings.blob_garbage_age,
        )
    return store


def make_services(
    store: Store,
    registry: Registry,
    settings: Settings,
    hints: Hints,
    keyring: Keyring | None = None,
    limits: LimitMemory | None = None,
) -> Services:
    """Return the use cases over a store."""
    keyring = keyring or Keyring(store.access, store.clock)
    access = Authenticator(keyring, settings.auth_token, by_id=settings.by_id)
    pauses = Pauses(store, registry, store.clock)
    estimates = Estimates(store, registry, settings, pauses)
    submissions = SubmitService(store, registry, settings, estimates, store.clock)
    reads = Reads(store, settings, estimates, pauses, store.clock)
    sessions = Sessions(access, store.access, store.clock)
    slots = make_stream_slots(settings, limits)
    return Services(
        registry,
        submissions,
        Control(store, registry, submissions, hints, settings),
        reads,
        Followers(store, reads, hints, slots, allowed=sessions.allows),
        access,
        KeyService(store.access, store.clock),
        JobTokens(access, store.access),
        sessions,
        Inbox(store),
        Overviews(store, pauses, store.clock),
        MetricsSnapshot(store, settings, slots),
        Holds(store),
        make_webhook_service(store, settings),
        ScheduleService(store, registry, settings, submissions, store.clock),
        ResponseMemory(most_of_org=settings.max_sending_org, most=settings.max_sending),
        MailReceivers(store, settings),
        pauses,
        Provenances(store),
    )


def make_webhook_service(store: Store, settings: Settings, *, operator: bool = False) -> WebhookService:
    """Return the use cases of webhook endpoints: the same for API, pages and commands.

    For an operator also the responses of private receivers to a test.
    """
    return WebhookService(
        store, settings, WebhookTester(lambda: make_webhook_channel(store, settings, "", shows_inside=operator))
    )


def make_stream_slots(settings: Settings, limits: LimitMemory | None = None) -> StreamSlots:
    """Return the slots of long requests, fewer than connections: one org leaves some to others, all leave some free.

    Otherwise a single org could hold every connection, whatever its number of streams.
    """
    connections = settings.connection_limit * (settings.processes if limits is not None else 1)
    return StreamSlots(
        most_of_org=min(settings.max_streams_org, max(1, connections * 5 // 8)),
        most=min(settings.max_streams, max(1, connections * 3 // 4)),
        share=settings.credential_share / 100,
        memory=limits,
    )


def make_sender(
    store: Store,
    settings: Settings,
    registry: Registry,
    hints: Hints,
    prefix: str,
    record: Callable[[str], Awaitable[object]],
) -> Sender:
    """Return the sender of the outbox, with a channel per kind of message."""
    channels: dict[ChannelName, Channel] = {
        "webhook": make_webhook_channel(store, settings, prefix),
        "email": make_mail_channel(store, settings, registry),
    }
    return Sender(store, settings, hints, store.clock, channels, record=record)


def make_mail_channel(store: Store, settings: Settings, registry: Registry) -> Channel:
    """Return the channel of mail, or None without a mail server."""
    if settings.smtp is None or settings.mail_from is None:
        return UnconfiguredChannel("no mail server is set up: see LANGLAUF_SMTP")
    from langlauf.ui.emails import (
        EmailWriter,  # templates and texts that a worker without mail does not need
    )

    return EmailChannel(
        store,
        render=EmailWriter(settings, registry).about,
        receivers=MailReceivers(store, settings),
        rules=settings.mail_rules,
        server=settings.smtp,
        sender=settings.mail_from,
        seconds=settings.webhook_seconds,
    )


def make_webhook_channel(
    store: Store, settings: Settings, prefix: str, *, shows_inside: bool = False
) -> WebhookChannel:
    """Return the channel of webhooks."""
    try:
        trust = tls_context(settings.webhook_ca)
    except OSError as error:
        raise SettingsError(f"LANGLAUF_WEBHOOK_CA={settings.webhook_ca!r}: {error}") from None

    def policy(org_id: str) -> ConnectionPolicy:
        allow = allowed_networks(settings.webhook_allow, org_id)
        return ConnectionPolicy(trust=trust, allow=allow, own_host=settings.host, own_port=settings.port)

    return WebhookChannel(
        policy=policy,
        resolver=Resolver(2 * max(1, settings.deliveries)),
        clock=store.clock,
        seconds=settings.webhook_seconds,
        source=event_source(settings.public_url, prefix),
        master=functools.partial(store.access.signing_secret, ENDPOINT_SECRETS_PURPOSE),
        operator_secrets=tuple(map(read_secret, settings.webhook_secret or ())),
        own_url=settings.public_url,
        shows_inside=shows_inside,
    )


def _make_workers(
    store: Store, registry: Registry, settings: Settings, hints: Hints, target: str | None
) -> Sequence[Worker | WorkerProcess]:
    count = range(settings.workers)
    if target is None or parse_location(settings.store_path) == SqliteLocation(MEMORY):
        source = functools.partial(Claimer, store, hints, settings.poll_seconds)
        return [Worker(store, registry, settings, hints, store.clock, source) for _ in count]
    return [WorkerProcess(store, settings, hints, target) for _ in count]


async def _write_last_uses(keyring: Keyring) -> None:
    """Write what is known of the use of keys; an unavailable store does not delay the shutdown."""
    try:
        await keyring.write_uses()
    except StoreUnhealthy:
        return  # logged once, by the health check of the store
    except StoreError as error:
        log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, error=error, duty="key uses")


@asynccontextmanager
async def run_application(
    registry: Registry,
    settings: Settings,
    prefix: str = "/analyze",
    target: str | None = None,
    limits: LimitMemory | None = None,
) -> AsyncIterator[Runtime]:
    """Open everything, start the background parts, and stop them in the right order.

    With a `target`, which names the application, workers run in processes of their own that load it; with a store in
    memory they run in this one.
    """
    if processes.INSIDE:
        raise LanglaufError(
            "the application started a worker inside one of its own processes: "
            'put what starts it under `if __name__ == "__main__":`'
        )
    hints = Hints()
    async with AsyncExitStack() as stack:
        set_up_tracing()
        stack.push_async_callback(asyncio.to_thread, end_tracing)
        store = await open_store(settings, hints, registry.default)
        stack.callback(log_event, LogEvent.SERVER_STOPPED)
        stack.push_async_callback(store.close)
        await store.health.admit()
        await store.blobs.check()
        keyring = Keyring(store.access, store.clock)
        stack.push_async_callback(_write_last_uses, keyring)
        services = make_services(store, registry, settings, hints, keyring, limits)
        recorder = DutyRecorder(store.duties.record_success)
        alarm = Alarm(store, hints)
        await services.schedules.follow_code()
        firer = ScheduleFirer(store, registry, services.submissions)
        duties = [
            PeriodicDuty(
                SWEEP_DUTY,
                settings.sweep_seconds,
                lambda: sweep_once(store, settings),
                pause=hints.wait_for_overdue,
                on_success=recorder.record,
            ),
            PeriodicDuty("schedules", SCHEDULES_EVERY, firer.fire, pause=firer.pause),
            PeriodicDuty("alarm", EVERY_SECONDS, alarm.look, pause=alarm.pause),
            PeriodicDuty("store health", WATCH_SECONDS, store.health.watch),
            PeriodicDuty("followers", LOOK_SECONDS, services.followers.look),
            PeriodicDuty(
                RETENTION_DUTY,
                settings.retention_every,
                lambda: apply_retention(store, settings.retention, counted=False),
                on_success=recorder.record,
            ),
            PeriodicDuty("key uses", USES_EVERY_SECONDS, keyring.write_uses),
        ]
        register_analyses(registry.names)
        parts: list[PeriodicDuty] = [*duties]
        if settings.deliveries:
            parts.append(make_sender(store, settings, registry, hints, prefix, recorder.record))
        services.metrics.watch(parts)
        workers = _make_workers(store, registry, settings, hints, target)
        services.metrics.gather(workers)
        runtime = Runtime(store, services, hints, workers, parts)
        stack.push_async_callback(runtime.stop)
        await runtime.start()
        log_event(LogEvent.SERVER_STARTED, store=parse_location(settings.store_path).shown, workers=settings.workers)
        yield runtime
