"""Webhooks: the event as a CloudEvent, signed by the Standard Webhooks scheme, sent once within one deadline."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from socket import gaierror

import msgspec

from langlauf.clock import Clock, SystemClock, monotonic
from langlauf.delivery.checked_connection import Doors, Resolver, TooManyQuestions, checked_addresses, connected
from langlauf.delivery.http_exchange import MOST_READ, Answer, BadAnswer, post
from langlauf.domain.delivery import Delivery, subject_of
from langlauf.domain.delivery_outcome import DeliveryOutcome, clean_error, conceal_details, excerpt, outcome_of_status
from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.event import CLOUD_EVENT_MEDIA_TYPE, OUTBOUND, EventType, cloud_event
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.ssrf import is_allowed_private
from langlauf.domain.state import Status
from langlauf.domain.webhook import endpoint_secret, org_secret, read_webhook_url, signatures
from langlauf.service.webhooks import SendResult, WebhookRequest
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.version import VERSION

_KINDS: dict[str, EventType] = {str(name).rpartition(".")[2]: kind for kind, name in OUTBOUND.items()}
_LARGEST_BODY = 20_000
_WALL = SystemClock()
_NONE: Mapping[str, str] = {}
_AGENT = f"langlauf/{VERSION}"


class _News(msgspec.Struct):
    """What the outbox keeps about an event."""

    job_id: str
    status: Status
    event_seq: int
    event_id: str
    trace_id: str
    result_id: str | None = None


class Webhooks:
    """The channel of webhooks."""

    def __init__(
        self,
        *,
        doors: Callable[[str], Doors],
        resolver: Resolver,
        clock: Clock,
        seconds: float,
        source: str,
        master: Callable[[], Awaitable[bytes]],
        operator_secrets: tuple[bytes, ...] = (),
        own_url: str | None = None,
        shows_inside: bool = False,
    ) -> None:
        self._doors = doors
        self._resolver = resolver
        self._clock = clock
        #: how long one try may take in all
        self.seconds = seconds
        self._source = source
        self._master = master
        self._operator_secrets = operator_secrets
        self._own_url = own_url
        self._shows_inside = shows_inside
        self._master_secret: bytes | None = None

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Sends it once; whatever goes wrong is an outcome."""
        secrets = await self._secrets(delivery)
        if not secrets:
            return DeliveryOutcome(
                verdict="later", error="there is no secret to sign with: set LANGLAUF_WEBHOOK_SECRET"
            )
        body = webhook_body(delivery, self._source)
        if len(body) > _LARGEST_BODY:
            return DeliveryOutcome(verdict="never", error=f"the message is larger than {_LARGEST_BODY} bytes")
        headers = {} if delivery.traceparent is None else {"traceparent": delivery.traceparent}
        parcel = WebhookRequest(
            org_id=delivery.org_id,
            url=delivery.target,
            message_id=delivery.notification_id,
            body=body,
            secrets=tuple(secrets),
        )
        return await self.send_parcel(parcel, headers)

    async def send_parcel(self, parcel: WebhookRequest, headers: Mapping[str, str] = _NONE) -> DeliveryOutcome:
        """Signs a body and sends it to an address once, whatever it tells of; the same guards for all.

        Of a receiver inside a network the org learns nothing but whether it took the message.
        """
        doors = self._doors(parcel.org_id)
        until = asyncio.get_running_loop().time() + self.seconds
        inside = False
        try:
            target = read_webhook_url(parcel.url, doors.allow, own=self._own_url)
            async with asyncio.timeout_at(until) as deadline:
                addresses = await checked_addresses(target, doors, self._resolver)
                inside = any(is_allowed_private(address, doors.allow) for address in addresses)
                async with connected(target, addresses, doors, until=until, limit=MOST_READ) as streams:
                    sent = {**self._headers(parcel), **headers}
                    outcome = _outcome(await post(streams, target, sent, parcel.body, deadline))
        except TooManyQuestions as error:
            return DeliveryOutcome(verdict="later", error=str(error))  # no fault of this receiver
        except (WebhookUrlRefused, BadAnswer, OSError) as error:
            outcome = DeliveryOutcome(verdict="later", error=_reason(error, self.seconds), lane_failed=True)
        return conceal_details(outcome) if inside and not self._shows_inside else outcome

    def _headers(self, parcel: WebhookRequest) -> dict[str, str]:
        # By the clock on the wall, as receivers compare it: the store's own does not follow when that is set back.
        timestamp = _WALL.now() // SECOND
        return {
            "content-type": CLOUD_EVENT_MEDIA_TYPE,
            "user-agent": _AGENT,
            "accept": "*/*",
            "webhook-id": parcel.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(parcel.secrets, parcel.message_id, timestamp, parcel.body),
        }

    async def _secrets(self, delivery: Delivery) -> list[bytes]:
        """What signs: the endpoint's secret and, while receivers change over, the one before; else the org's."""
        if delivery.endpoint_id is None or delivery.version is None:
            return [org_secret(one, delivery.org_id) for one in self._operator_secrets]
        if self._master_secret is None:
            self._master_secret = await self._master()
        master = self._master_secret
        versions = [delivery.version]
        if _ahead(delivery.former_until, self._clock.now()):
            # Two before: who asks twice for a new secret does not shut out a receiver that still has the first one.
            versions += [one for one in (delivery.version - 1, delivery.version - 2) if one > 0]
        return [endpoint_secret(master, delivery.org_id, delivery.endpoint_id, one) for one in versions]


def webhook_body(delivery: Delivery, source: str) -> bytes:
    """What is sent: the same bytes at every try."""
    news = msgspec.json.decode(delivery.payload_json, type=_News)
    event = cloud_event(
        event_id=news.event_id,
        kind=_KINDS[subject_of(delivery.template_key)],
        job_id=news.job_id,
        org_id=delivery.org_id,
        status=news.status,
        event_seq=news.event_seq,
        occurred_at=delivery.created_at,
        trace_id=news.trace_id,
        result_id=news.result_id,
        source=source,
    )
    return msgspec.json.encode(event)


def _outcome(answer: Answer) -> DeliveryOutcome:
    reply = answer.body.decode("utf-8", "replace")
    return outcome_of_status(answer.status_code, answer.headers.get("retry-after"), reply, _WALL.now())


def _ahead(until: Instant | None, now: Instant) -> bool:
    return until is not None and until > now


def _reason(error: Exception, seconds: float) -> str:
    """What went wrong, for people."""
    match error:
        case TimeoutError():
            return f"no answer within {seconds:g} s"
        case ssl.SSLCertVerificationError():
            return f"the certificate is not to be trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"no secure connection: {error.reason or error}"
        case gaierror():
            return f"the name of the host was not found: {error.strerror}"
        case OSError():  # its own text can have an inner address in it
            return f"no connection: {os.strerror(error.errno) if error.errno else error}"
        case _:
            return str(error)


class SendingOnce:
    """One try, through the guards of every delivery. The channel is made at the first use: most never need it."""

    def __init__(self, make: Callable[[], Webhooks]) -> None:
        self._make = make
        self._channel: Webhooks | None = None

    async def __call__(self, parcel: WebhookRequest) -> SendResult:
        """Sends it, and tells what came back. A failure inside a network is told when the time for a try is over."""
        if self._channel is None:
            self._channel = self._make()
        started = monotonic()
        outcome = await self._channel.send_parcel(parcel)
        if outcome.detail is not None:
            if outcome.verdict != "sent":  # how long it took would tell a closed port from one that does not answer
                await asyncio.sleep(max(0.0, started + self._channel.seconds - monotonic()))
            log_event(
                LogEvent.WEBHOOK_TESTED, org_id=parcel.org_id, taken=outcome.verdict == "sent", reason=outcome.detail
            )
        return SendResult(
            taken=outcome.verdict == "sent",
            seconds=monotonic() - started if outcome.detail is None else 0.0,
            status_code=outcome.status_code,
            error=clean_error(outcome.error),
            reply=excerpt(outcome.reply) or None,
        )
