"""Webhooks: the event as a CloudEvent, signed by the Standard Webhooks scheme, sent once within one deadline."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from socket import gaierror

import msgspec

from langlauf.clock import Clock, SystemClock, monotonic
from langlauf.delivery.checked_http import (
    MOST_READ,
    ConnectionPolicy,
    HttpResponse,
    InvalidResponse,
    Resolver,
    TooManyLookups,
    open_checked,
    post,
    resolve_checked,
)
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


class _OutboxEvent(msgspec.Struct):
    """An event as the outbox stores it."""

    job_id: str
    status: Status
    event_seq: int
    event_id: str
    trace_id: str
    result_id: str | None = None


class WebhookChannel:
    """Sends messages as webhooks."""

    def __init__(
        self,
        *,
        policy: Callable[[str], ConnectionPolicy],
        resolver: Resolver,
        clock: Clock,
        seconds: float,
        source: str,
        master: Callable[[], Awaitable[bytes]],
        operator_secrets: tuple[bytes, ...] = (),
        own_url: str | None = None,
        shows_inside: bool = False,
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._clock = clock
        #: timeout of one delivery attempt
        self.seconds = seconds
        self._source = source
        self._master = master
        self._operator_secrets = operator_secrets
        self._own_url = own_url
        self._shows_inside = shows_inside
        self._master_secret: bytes | None = None

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Send once; a failure is an outcome."""
        secrets = await self._secrets(delivery)
        if not secrets:
            return DeliveryOutcome(
                verdict="later", error="there is no secret to sign with: set LANGLAUF_WEBHOOK_SECRET"
            )
        body = webhook_body(delivery, self._source)
        if len(body) > _LARGEST_BODY:
            return DeliveryOutcome(verdict="never", error=f"the message is larger than {_LARGEST_BODY} bytes")
        headers = {} if delivery.traceparent is None else {"traceparent": delivery.traceparent}
        request = WebhookRequest(
            org_id=delivery.org_id,
            url=delivery.target,
            message_id=delivery.notification_id,
            body=body,
            secrets=tuple(secrets),
        )
        return await self.send_request(request, headers)

    async def send_request(self, request: WebhookRequest, headers: Mapping[str, str] = _NONE) -> DeliveryOutcome:
        """Sign a body and send it once, with the address checks of every delivery.

        Of a receiver in a private network the org learns only whether it accepted the message.
        """
        policy = self._policy(request.org_id)
        until = asyncio.get_running_loop().time() + self.seconds
        private = False
        try:
            target = read_webhook_url(request.url, policy.allow, own=self._own_url)
            async with asyncio.timeout_at(until) as deadline:
                addresses = await resolve_checked(target, policy, self._resolver)
                private = any(is_allowed_private(address, policy.allow) for address in addresses)
                async with open_checked(target, addresses, policy, until=until, limit=MOST_READ) as streams:
                    sent = {**self._headers(request), **headers}
                    outcome = _outcome(await post(streams, target, sent, request.body, deadline))
        except TooManyLookups as error:
            return DeliveryOutcome(verdict="later", error=str(error))  # not the fault of this receiver
        except (WebhookUrlRefused, InvalidResponse, OSError) as error:
            outcome = DeliveryOutcome(verdict="later", error=_reason(error, self.seconds), lane_failed=True)
        return conceal_details(outcome) if private and not self._shows_inside else outcome

    def _headers(self, request: WebhookRequest) -> dict[str, str]:
        # Wall-clock time, which receivers compare: the clock of the store does not follow when that is set back.
        timestamp = _WALL.now() // SECOND
        return {
            "content-type": CLOUD_EVENT_MEDIA_TYPE,
            "user-agent": _AGENT,
            "accept": "*/*",
            "webhook-id": request.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(request.secrets, request.message_id, timestamp, request.body),
        }

    async def _secrets(self, delivery: Delivery) -> list[bytes]:
        """Return the signing secrets: of the endpoint, with former ones during a rotation; else of the org."""
        if delivery.endpoint_id is None or delivery.version is None:
            return [org_secret(one, delivery.org_id) for one in self._operator_secrets]
        if self._master_secret is None:
            self._master_secret = await self._master()
        master = self._master_secret
        versions = [delivery.version]
        if _is_future(delivery.former_until, self._clock.now()):
            # Two former ones: rotating twice must not lock out a receiver that still has the first secret.
            versions += [one for one in (delivery.version - 1, delivery.version - 2) if one > 0]
        return [endpoint_secret(master, delivery.org_id, delivery.endpoint_id, one) for one in versions]


def webhook_body(delivery: Delivery, source: str) -> bytes:
    """Return the body, the same bytes for every attempt."""
    stored = msgspec.json.decode(delivery.payload_json, type=_OutboxEvent)
    event = cloud_event(
        event_id=stored.event_id,
        kind=_KINDS[subject_of(delivery.template_key)],
        job_id=stored.job_id,
        org_id=delivery.org_id,
        status=stored.status,
        event_seq=stored.event_seq,
        occurred_at=delivery.created_at,
        trace_id=stored.trace_id,
        result_id=stored.result_id,
        source=source,
    )
    return msgspec.json.encode(event)


def _outcome(response: HttpResponse) -> DeliveryOutcome:
    reply = response.body.decode("utf-8", "replace")
    return outcome_of_status(response.status_code, response.headers.get("retry-after"), reply, _WALL.now())


def _is_future(until: Instant | None, now: Instant) -> bool:
    return until is not None and until > now


def _reason(error: Exception, seconds: float) -> str:
    """Return the error for users."""
    match error:
        case TimeoutError():
            return f"no response within {seconds:g} s"
        case ssl.SSLCertVerificationError():
            return f"the certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or error}"
        case gaierror():
            return f"the host name was not found: {error.strerror}"
        case OSError():  # its own text can contain a private address
            return f"no connection: {os.strerror(error.errno) if error.errno else error}"
        case _:
            return str(error)


class WebhookTester:
    """Sends a test webhook, outside of the outbox. Its channel is created at the first use, as most never need it."""

    def __init__(self, make: Callable[[], WebhookChannel]) -> None:
        self._make = make
        self._channel: WebhookChannel | None = None

    async def __call__(self, request: WebhookRequest) -> SendResult:
        """Send the request and return its result; a failure in a private network takes the full timeout."""
        if self._channel is None:
            self._channel = self._make()
        started = monotonic()
        outcome = await self._channel.send_request(request)
        if outcome.detail is not None:
            if outcome.verdict != "sent":  # the duration would tell a closed port from a filtered one
                await asyncio.sleep(max(0.0, started + self._channel.seconds - monotonic()))
            log_event(
                LogEvent.WEBHOOK_TESTED, org_id=request.org_id, taken=outcome.verdict == "sent", reason=outcome.detail
            )
        return SendResult(
            taken=outcome.verdict == "sent",
            seconds=monotonic() - started if outcome.detail is None else 0.0,
            status_code=outcome.status_code,
            error=clean_error(outcome.error),
            reply=excerpt(outcome.reply) or None,
        )
