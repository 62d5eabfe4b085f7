"""Claims messages of the outbox as far as there are free slots, sends them concurrently, and settles each.

Modes: *sending* from `start`; *draining* from `stop` on: nothing is claimed, and deliveries under way have a short
grace. What is not settled by then is claimed again once its claim expires.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from langlauf.clock import Clock, draw, monotonic
from langlauf.domain.delivery import ChannelName, Delivery, DeliveryClaim, DeliveryEnd
from langlauf.domain.delivery_outcome import PAUSE_AFTER_FAILURES, DeliveryOutcome, settle_delivery
from langlauf.domain.errors import StoreError
from langlauf.domain.health import DELIVERY_DUTY, MAIL_DUTY, mail_sender_alive
from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.telemetry.metrics import DUTIES, count_delivery
from langlauf.telemetry.tracing import start_span, trace_from


class Channel(Protocol):
    """Sends messages of one kind."""

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Sends it once, within a time of its own. What goes wrong is told, not raised."""


class Silent:
    """A way out that nobody has set up."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, delivery: Delivery) -> DeliveryOutcome:  # noqa: ARG002
        """Sends nothing, and says why."""
        return DeliveryOutcome(verdict="suppressed", error=self._reason)


_MOST_OF_LANE = 2
#: How long at most between two looks, and how long at least after one that found nothing.
_LOOK_SECONDS = 1.0
_REST_SECONDS = 0.2
#: Two to the power of a thousand is no float: a store may be away for days.
_MOST_DOUBLINGS = 60
_LONGEST_REST = 10.0
#: What a claim lasts at most beyond the try itself, to write down how it went.
_LONGEST_MARGIN = 15.0
_GRACE_SECONDS = 5.0


class Sender:
    """Sends what waits in the outbox. It is a duty: looking for what is due must not fail for long."""

    name = DELIVERY_DUTY
    every = _LOOK_SECONDS

    def __init__(
        self,
        store: Store,
        settings: Settings,
        hints: Hints,
        clock: Clock,
        channels: Mapping[ChannelName, Channel],
        *,
        done: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self._done = done
        self._store = store
        self._settings = settings
        self._hints = hints
        self._clock = clock
        self._channels = channels
        #: where there is no mail server, mail is left to processes that have one while there are some
        self._sends_mail = not isinstance(channels.get("email"), Silent)
        self._others_send_mail = False
        self._asked_at: float | None = None
        self._claim_seconds = settings.webhook_seconds + min(settings.webhook_seconds, _LONGEST_MARGIN)
        self._sending: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._draining = asyncio.Event()
        self._freed = asyncio.Event()
        #: looks in a row at which the store was away
        self._away = 0
        #: when a look last ended well, on the clock of `monotonic`; the time of its start before that
        self.succeeded_at = monotonic()

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._loop is not None and not self._loop.done()

    async def start(self) -> None:
        """Begins to send."""
        self.succeeded_at = monotonic()
        for outcome in ("done", "failed"):
            DUTIES.initialize(self.name, outcome)
        self._loop = asyncio.create_task(self._send_for_ever(), name="langlauf-sender")

    async def stop(self) -> None:
        """Claims no more; what is on its way may arrive within the grace, then it is let go."""
        self._draining.set()
        self._hints.outbox()
        if self._loop is not None:
            # A claim that is under way commits whatever happens to this task: what it got is sent, not left.
            await asyncio.wait({self._loop}, timeout=_GRACE_SECONDS)
            await _end(self._loop)
        if self._sending:
            await asyncio.wait(self._sending, timeout=_GRACE_SECONDS)
        for task in list(self._sending):
            await _end(task)

    async def _send_for_ever(self) -> None:
        while not self._draining.is_set():
            try:
                found = await self._look()
            except Exception as error:  # noqa: BLE001 - sending goes on, whatever went wrong at one look
                DUTIES.add(self.name, "failed")
                await self._rest_without_store(error)
            else:
                self._away = 0
                await self._well()
                await self._rest(found)

    async def _well(self) -> None:
        self.succeeded_at = monotonic()
        DUTIES.add(self.name, "done")
        if self._done is not None:
            await self._done(self.name)
            if self._sends_mail:
                await self._done(MAIL_DUTY)

    async def _look(self) -> int:
        """Claims what there is room for; tells how many were found, or are on their way where there is no room."""
        self._freed.clear()
        free = self._settings.deliveries - len(self._sending)
        if free <= 0:
            return len(self._sending)  # the next one that is done wakes us
        claim = DeliveryClaim(
            most=free,
            most_of_lane=_MOST_OF_LANE,
            claim_seconds=self._claim_seconds,
            cautious_after=PAUSE_AFTER_FAILURES,
            with_mail=self._sends_mail or not await self._left_to_others(),
        )
        found = await self._store.deliveries.claim(claim)
        for delivery in found:
            task = asyncio.create_task(self._deliver(delivery), name="langlauf-delivery")
            self._sending.add(task)
            task.add_done_callback(self._delivered)
        return len(found)

    async def _left_to_others(self) -> bool:
        """Whether another process sends the mail; asked no more often than one looks while nothing is to be sent."""
        if self._asked_at is None or monotonic() - self._asked_at >= _LOOK_SECONDS:
            self._others_send_mail = mail_sender_alive(await self._store.duties.seen(), self._clock.now())
            self._asked_at = monotonic()
        return self._others_send_mail

    def _delivered(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._freed.set()  # there is a free place again, and more may wait in the lane
        self._hints.outbox()

    async def _rest(self, found: int) -> None:
        """Waits until there may be more. A look that found nothing is not repeated at every change of a job."""
        if not found and not self._draining.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REST_SECONDS):
                    await self._freed.wait()
        await self._hints.wait_for_outbox(_LOOK_SECONDS)

    async def _rest_without_store(self, error: Exception) -> None:
        if self._away == 0:
            log_store_failure(error, trace=True, part="sender")
        self._away += 1
        seconds = min(_LOOK_SECONDS * 2.0 ** min(self._away, _MOST_DOUBLINGS), _LONGEST_REST)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _deliver(self, delivery: Delivery) -> None:
        started = monotonic()
        try:
            outcome = await self._try(delivery)
        except StoreError as error:  # nothing was sent: it comes again when its claim is over
            _tell_unwritten(delivery.notification_id, error)
            return
        end = settle_delivery(
            delivery,
            outcome,
            schedule=self._settings.webhook_schedule,
            draw=draw(),
            seconds=monotonic() - started,
            now=self._clock.now(),
            failing_since=await self._failing_since(delivery, outcome),
        )
        if await self._finish(end, until=started + self._claim_seconds):
            count_delivery(delivery.channel, end.status)
            _tell(delivery, end, outcome.detail or end.error)

    async def _try(self, delivery: Delivery) -> DeliveryOutcome:
        channel = self._channels.get(delivery.channel) or Silent("this server does not send such messages")
        try:
            return await _told(delivery, channel)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one message that cannot be made must not hold up the others
            ids: dict[str, Any] = {"org_id": delivery.org_id, "notification_id": delivery.notification_id}
            log_event(LogEvent.UPKEEP_FAILED, logging.ERROR, error=error, duty="sending", **ids)
            return DeliveryOutcome(verdict="later", error="it could not be sent: the server's log tells why")

    async def _failing_since(self, delivery: Delivery, outcome: DeliveryOutcome) -> Instant | None:
        """Since when its endpoint has not been reached; asked only where that has become serious."""
        if not outcome.lane_failed or delivery.endpoint_id is None or delivery.lane_failures < PAUSE_AFTER_FAILURES:
            return None
        try:
            endpoints = await self._store.tenant(delivery.org_id).endpoints()
        except StoreError:
            return None
        return next((one.failing_since for one in endpoints if one.endpoint_id == delivery.endpoint_id), None)

    async def _finish(self, end: DeliveryEnd, until: float) -> bool:
        """Writes down how it went, while nobody else may have taken it."""
        while True:
            try:
                return await self._store.deliveries.finish(end)
            except StoreError as error:
                if monotonic() + _LOOK_SECONDS > until:
                    _tell_unwritten(end.notification_id, error)
                    return False
                await asyncio.sleep(_LOOK_SECONDS)


async def _told(delivery: Delivery, channel: Channel) -> DeliveryOutcome:
    """Sends it as a part of the job's own story, which the receiver can carry on."""
    given = trace_from(delivery.traceparent, None)
    ids = {"job_id": delivery.job_id, "org_id": delivery.org_id, "notification_id": delivery.notification_id}
    with start_span("deliver", given, "client", channel=delivery.channel, **ids) as span:
        carried = span.trace.traceparent if span.trace else None
        outcome = await channel.send(msgspec.structs.replace(delivery, traceparent=carried))
        span.set_attributes(verdict=outcome.verdict)
        if outcome.verdict != "sent":
            span.fail(outcome.verdict)
        return outcome


def _tell(delivery: Delivery, end: DeliveryEnd, reason: str | None) -> None:
    """What happened, with ids alone: an address can carry a secret. The reason may say more than the org is told."""
    ids: dict[str, Any] = {
        "org_id": delivery.org_id,
        "notification_id": delivery.notification_id,
        "job_id": delivery.job_id,
        "channel": delivery.channel,
        "endpoint_id": delivery.endpoint_id,
        "try_number": delivery.try_number,
    }
    if end.status == "sent":
        log_event(LogEvent.DELIVERY_SENT, **ids, seconds=round(end.seconds, 3))
    elif end.status == "pending":
        log_event(LogEvent.DELIVERY_FAILED, logging.WARNING, **ids, reason=reason, again_in=round(end.retry_seconds, 1))
    elif end.status == "suppressed":
        log_event(LogEvent.DELIVERY_SUPPRESSED, **ids, reason=reason)
    elif end.status == "failed":
        log_event(LogEvent.DELIVERY_GAVE_UP, logging.ERROR, **ids, reason=reason)
    if end.disable is not None and delivery.endpoint_id is not None:
        log_event(LogEvent.ENDPOINT_DISABLED, logging.ERROR, **ids, reason=end.disable)
    elif end.pause_seconds is not None:
        log_event(LogEvent.ENDPOINT_PAUSED, logging.WARNING, **ids, seconds=end.pause_seconds)


def _tell_unwritten(notification_id: str, error: StoreError) -> None:
    log_event(LogEvent.DELIVERY_UNWRITTEN, logging.ERROR, notification_id=notification_id, reason=str(error))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
