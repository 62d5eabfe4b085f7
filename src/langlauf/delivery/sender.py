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

from langlauf.background import PeriodicDuty, until_tick
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

_MOST_OF_LANE = 2
#: The longest pause between two rounds, and the shortest after one that claimed nothing.
_LOOK_SECONDS = 1.0
_REST_SECONDS = 0.2
#: How often the store is asked who sends mail: a sender counts as alive for longer than this.
_ASK_SECONDS = 5.0
#: Bounds the exponent of the backoff: a store may be unavailable for days, and 2.0 ** 1024 overflows.
_MOST_DOUBLINGS = 60
_LONGEST_REST = 10.0
#: How long a claim lasts beyond the attempt to send, at most, so that its outcome can be written.
_LONGEST_MARGIN = 15.0
_GRACE_SECONDS = 5.0


class Channel(Protocol):
    """Sends messages of one kind."""

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Send the message once, within a timeout of its own. A failure is an outcome, not an exception."""


class UnconfiguredChannel:
    """A channel that is not configured: suppresses every message, with the reason."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, delivery: Delivery) -> DeliveryOutcome:  # noqa: ARG002
        """Send nothing."""
        return DeliveryOutcome(verdict="suppressed", error=self._reason)


class Sender(PeriodicDuty):
    """Sends what is due in the outbox, until it is stopped."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        hints: Hints,
        clock: Clock,
        channels: Mapping[ChannelName, Channel],
        *,
        record: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        """`record` gets the names of its duties after each successful round."""
        super().__init__(
            DELIVERY_DUTY,
            _LOOK_SECONDS,
            self._claim_due,
            pause=lambda _: self._wait_for_more(),
            on_success=self._record_success,
            # A claim under way commits whatever happens to its task: what it returns is sent, not left.
            grace=_GRACE_SECONDS,
        )
        self._record = record
        self._store = store
        self._settings = settings
        self._hints = hints
        self._clock = clock
        self._channels = channels
        #: without a mail server, mail is left to processes that have one, while there are any
        self._sends_mail = not isinstance(channels.get("email"), UnconfiguredChannel)
        self._others_send_mail = False
        self._asked_at: float | None = None
        self._claim_seconds = settings.webhook_seconds + min(settings.webhook_seconds, _LONGEST_MARGIN)
        self._sending: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        self._freed = asyncio.Event()
        #: messages that the last round claimed; those under way where there was no free slot
        self._claimed = 0
        #: consecutive rounds that failed
        self._failures = 0

    async def stop(self) -> None:
        """Claim no more; deliveries under way have the grace, then they are canceled."""
        self._draining.set()
        self._hints.outbox()
        await super().stop()
        if self._sending:
            await asyncio.wait(self._sending, timeout=_GRACE_SECONDS)
        for task in list(self._sending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _record_success(self, name: str) -> None:
        if self._record is not None:
            await self._record(name)
            if self._sends_mail:
                await self._record(MAIL_DUTY)

    async def _claim_due(self) -> None:
        """Claim as many messages as there are free slots, and start to send them."""
        self._freed.clear()
        free = self._settings.deliveries - len(self._sending)
        if free <= 0:
            self._claimed = len(self._sending)  # the next delivery that ends wakes the loop
        else:
            claim = DeliveryClaim(
                most=free,
                most_of_lane=_MOST_OF_LANE,
                claim_seconds=self._claim_seconds,
                cautious_after=PAUSE_AFTER_FAILURES,
                with_mail=self._sends_mail or not await self._mail_left_to_others(),
            )
            claimed = await self._store.deliveries.claim(claim)
            for delivery in claimed:
                task = asyncio.create_task(self._deliver(delivery), name="langlauf-delivery")
                self._sending.add(task)
                task.add_done_callback(self._delivered)
            self._claimed = len(claimed)
        self._failures = 0

    async def _mail_left_to_others(self) -> bool:
        """Whether another process sends the mail; the store is asked every few seconds at most."""
        if self._asked_at is None or monotonic() - self._asked_at >= _ASK_SECONDS:
            self._others_send_mail = mail_sender_alive(await self._store.duties.successes(), self._clock.now())
            self._asked_at = monotonic()
        return self._others_send_mail

    def _delivered(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._freed.set()  # a slot is free again, and more may wait in the lane
        self._hints.outbox()

    async def _wait_for_more(self) -> None:
        """Wait until more may be due; after failures, with exponential backoff."""
        if self._failures:
            seconds = min(_LOOK_SECONDS * 2.0 ** min(self._failures, _MOST_DOUBLINGS), _LONGEST_REST)
            await _wait_at_most(seconds, self._draining)
            return
        if not self._claimed:  # otherwise every change of a job would cause a claim that finds nothing
            await _wait_at_most(_REST_SECONDS, self._freed)
        await self._hints.wait_for_outbox(until_tick(_LOOK_SECONDS))

    async def _failed(self, error: Exception) -> None:
        DUTIES.add(self.name, "failed")
        if self._failures == 0:
            log_store_failure(error, trace=True, part="sender")
        self._failures += 1

    async def _deliver(self, delivery: Delivery) -> None:
        started = monotonic()
        try:
            outcome = await self._try(delivery)
        except StoreError as error:  # nothing was sent: it is claimed again once its claim expires
            _log_unwritten(delivery.notification_id, error)
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
            _log_end(delivery, end, outcome.detail or end.error)

    async def _try(self, delivery: Delivery) -> DeliveryOutcome:
        channel = self._channels.get(delivery.channel) or UnconfiguredChannel("this server does not send such messages")
        try:
            return await _send_traced(delivery, channel)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one message that cannot be rendered must not block the others
            ids: dict[str, Any] = {"org_id": delivery.org_id, "notification_id": delivery.notification_id}
            log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, error=error, duty="sending", **ids)
            return DeliveryOutcome(verdict="later", error="the message could not be sent: see the log of the server")

    async def _failing_since(self, delivery: Delivery, outcome: DeliveryOutcome) -> Instant | None:
        """Return since when the endpoint has been failing; read only after several failures in a row."""
        if not outcome.lane_failed or delivery.endpoint_id is None or delivery.lane_failures < PAUSE_AFTER_FAILURES:
            return None
        try:
            endpoints = await self._store.tenant(delivery.org_id).endpoints()
        except StoreError:
            return None
        return next((one.failing_since for one in endpoints if one.endpoint_id == delivery.endpoint_id), None)

    async def _finish(self, end: DeliveryEnd, until: float) -> bool:
        """Write the outcome; retry until the claim expires, after which another sender may have the message."""
        while True:
            try:
                return await self._store.deliveries.finish(end)
            except StoreError as error:
                if monotonic() + _LOOK_SECONDS > until:
                    _log_unwritten(end.notification_id, error)
                    return False
                await asyncio.sleep(_LOOK_SECONDS)


async def _send_traced(delivery: Delivery, channel: Channel) -> DeliveryOutcome:
    """Send within a span of the trace of the job, which the receiver can continue."""
    given = trace_from(delivery.traceparent, None)
    ids = {"job_id": delivery.job_id, "org_id": delivery.org_id, "notification_id": delivery.notification_id}
    with start_span("deliver", given, "client", channel=delivery.channel, **ids) as span:
        carried = span.trace.traceparent if span.trace else None
        outcome = await channel.send(msgspec.structs.replace(delivery, traceparent=carried))
        span.set_attributes(verdict=outcome.verdict)
        if outcome.verdict != "sent":
            span.fail(outcome.verdict)
        return outcome


def _log_end(delivery: Delivery, end: DeliveryEnd, reason: str | None) -> None:
    """Log the outcome with ids only, as a URL can carry a secret. The reason may hold more than the org may see."""
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


def _log_unwritten(notification_id: str, error: StoreError) -> None:
    log_event(LogEvent.DELIVERY_UNWRITTEN, logging.ERROR, notification_id=notification_id, reason=str(error))


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
