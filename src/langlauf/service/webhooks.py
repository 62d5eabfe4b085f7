"""Webhook endpoints of an org: managed, tested, and the deliveries to them.

The secret of an endpoint is shown when it is created, and never again. It is not stored: it is derived from a secret
of this store, the endpoint and the version of its secret whenever a message is signed.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from langlauf.analysis.schema import InvalidInput
from langlauf.clock import Clock, new_id
from langlauf.domain.access import LONGEST_KEY_NAME
from langlauf.domain.delivery import (
    FINAL_SUBJECTS,
    MOST_ENDPOINTS,
    DeliveryAttempt,
    DeliveryFilter,
    DeliveryReplay,
    EndpointChange,
    Notification,
    Subject,
    WebhookEndpoint,
)
from langlauf.domain.errors import LanglaufError, WebhookUrlRefused
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.ssrf import allowed_networks
from langlauf.domain.webhook import (
    ENDPOINT_SECRETS_PURPOSE,
    endpoint_secret,
    org_secret,
    read_secret,
    read_webhook_url,
    secret_text,
)
from langlauf.settings import Settings
from langlauf.store.protocol import Store, TenantReads

#: How long the previous secret stays valid by default, so that receivers can change over.
USUAL_OVERLAP = 86_400.0
#: The longest overlap.
LONGEST_OVERLAP = 30 * 86_400.0
#: At most this many attempts of a message are shown; only a message that was replayed often has more.
MOST_ATTEMPTS = 100
#: At most this many messages are replayed by one call.
MOST_REPLAYED = 1_000
TEST_TYPE = "api.analyze.webhook.test"
SWITCHED_OFF = "switched off"
#: Health of an endpoint, in one word.
EndpointHealth = Literal["working", "failing", "paused", "disabled"]


class EndpointExists(LanglaufError):
    """The org has an endpoint for that URL already."""


class TooManyEndpoints(LanglaufError):
    """The org has as many endpoints as it may have."""


class EndpointDisabled(LanglaufError):
    """Nothing is sent to an endpoint that is switched off or removed."""


class CreatedEndpoint(NamedTuple):
    """An endpoint with its new secret, which cannot be read again."""

    endpoint: WebhookEndpoint
    secret: str


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending once."""

    #: whether the receiver accepted it
    taken: bool
    seconds: float
    status_code: int | None = None
    error: str | None = None
    #: the beginning of the receiver's response, without secrets
    reply: str | None = None


class DeliveryWithAttempts(NamedTuple):
    """A delivery with all its attempts, the last one first."""

    message: Notification
    attempts: list[DeliveryAttempt]


class WebhookRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to send at once."""

    org_id: str
    url: str
    message_id: str
    body: bytes
    secrets: tuple[bytes, ...]


#: Sends once, with the same SSRF checks as every delivery.
SendOnce = Callable[[WebhookRequest], Awaitable[SendResult]]


class WebhookService:
    """Manages an org's endpoints and deliveries."""

    def __init__(self, store: Store, settings: Settings, send: SendOnce) -> None:
        self._store = store
        self._settings = settings
        self._send = send

    @property
    def clock(self) -> Clock:
        """Return the clock of deliveries."""
        return self._store.clock

    def _reads(self, org_id: str) -> TenantReads:
        return self._store.tenant(org_id)

    async def endpoints(self, org_id: str) -> list[WebhookEndpoint]:
        """Return the org's endpoints, oldest first."""
        return await self._reads(org_id).endpoints()

    async def one(self, org_id: str, endpoint_id: str) -> WebhookEndpoint | None:
        """Return one endpoint, or None."""
        return next((one for one in await self.endpoints(org_id) if one.endpoint_id == endpoint_id), None)

    async def add(
        self, org_id: str, url: str, *, name: str = "", subjects: Sequence[Subject] = FINAL_SUBJECTS
    ) -> CreatedEndpoint:
        """Add an endpoint. Its URL is validated now; the addresses behind its name are checked at every delivery."""
        try:
            target = read_webhook_url(
                url, allowed_networks(self._settings.webhook_allow, org_id), own=self._settings.public_url
            )
        except WebhookUrlRefused as error:
            raise InvalidInput("url", str(error), error.code, error.limit) from None
        endpoint = WebhookEndpoint(
            org_id=org_id,
            endpoint_id=new_id(),
            url=target.url,
            name=_usable_name(name),
            subjects=_usable_subjects(subjects),
            created_at=self._store.clock.now(),
        )
        made = await self._store.deliveries.add_endpoint(endpoint)
        if made is None:
            raise await self._why_not(org_id, target.url)
        return await self._with_secret(made)

    async def _why_not(self, org_id: str, url: str) -> LanglaufError:
        if any(one.url == url for one in await self.endpoints(org_id)):
            return EndpointExists("the org has an endpoint for this address already; change it, or remove it first")
        return TooManyEndpoints(f"an org has at most {MOST_ENDPOINTS} endpoints; remove one first")

    async def change(
        self,
        org_id: str,
        endpoint_id: str,
        *,
        name: str | None = None,
        subjects: Sequence[Subject] | None = None,
        enabled: bool | None = None,
    ) -> WebhookEndpoint | None:
        """Change the given fields; None where there is no such endpoint."""
        if await self.one(org_id, endpoint_id) is None:  # another org's endpoint costs one read, as none does
            return None
        change = EndpointChange(
            org_id=org_id,
            endpoint_id=endpoint_id,
            name=None if name is None else _usable_name(name),
            subjects=None if subjects is None else _usable_subjects(subjects),
            enabled=enabled,
            reason=SWITCHED_OFF if enabled is False else None,
        )
        return await self._store.deliveries.change_endpoint(change)

    async def rotate(
        self, org_id: str, endpoint_id: str, *, overlap_seconds: float = USUAL_OVERLAP
    ) -> CreatedEndpoint | None:
        """Create a new secret. During the overlap both secrets sign, so that no receiver refuses a message."""
        if not 0 <= overlap_seconds <= LONGEST_OVERLAP:
            raise InvalidInput("overlap", f"overlap must be at most {LONGEST_OVERLAP:g} seconds")
        if await self.one(org_id, endpoint_id) is None:
            return None
        change = EndpointChange(org_id=org_id, endpoint_id=endpoint_id, rotate_seconds=overlap_seconds)
        changed = await self._store.deliveries.change_endpoint(change)
        return None if changed is None else await self._with_secret(changed)

    async def remove(self, org_id: str, endpoint_id: str) -> bool:
        """Remove an endpoint and give up its pending messages. False where there is none."""
        if await self.one(org_id, endpoint_id) is None:
            return False
        return await self._store.deliveries.remove_endpoint(org_id, endpoint_id)

    async def test(self, org_id: str, endpoint_id: str) -> SendResult | None:
        """Send a signed test event at once, and return the result. None where there is no such endpoint.

        It is sent once and not recorded: the health of an endpoint comes from real messages.
        """
        endpoint = await self.one(org_id, endpoint_id)
        if endpoint is None:
            return None
        message_id = new_id()
        now = self._store.clock.now()
        secrets = await self._secrets(endpoint, now)
        body = _test_event(endpoint, message_id, now, self._settings.public_url)
        parcel = WebhookRequest(org_id=org_id, url=endpoint.url, message_id=message_id, body=body, secrets=secrets)
        return await self._send(parcel)

    async def deliveries(self, org_id: str, which: DeliveryFilter) -> list[Notification]:
        """Return the org's deliveries, newest first."""
        return await self._reads(org_id).deliveries(which)

    async def delivery(self, org_id: str, notification_id: str) -> DeliveryWithAttempts | None:
        """Return one delivery with its attempts, or None."""
        reads = self._reads(org_id)
        message = await reads.delivery(notification_id)
        if message is None:
            return None
        return DeliveryWithAttempts(message, await reads.delivery_attempts(notification_id, limit=MOST_ATTEMPTS))

    async def replay(self, org_id: str, notification_id: str) -> Notification | None:
        """Send a message again under its id, also one that was delivered; a pending one is left as it is."""
        if await self._reads(org_id).delivery(notification_id) is None:
            return None
        replayed = await self._store.deliveries.replay(
            DeliveryReplay(org_id=org_id, notification_id=notification_id, sent_too=True, most=1)
        )
        message = await self._reads(org_id).delivery(notification_id)
        if message is not None and not replayed and message.delivery_status != "pending":
            raise EndpointDisabled("its endpoint is switched off or gone; switch it on first, then replay")
        return message

    async def replay_failed(self, org_id: str, endpoint_id: str, *, since: Instant | None = None) -> int | None:
        """Send again what an endpoint did not accept; return how many messages, or None without such an endpoint."""
        endpoint = await self.one(org_id, endpoint_id)
        if endpoint is None:
            return None
        if endpoint.disabled_at is not None:
            raise EndpointDisabled("the endpoint is switched off; switch it on first, then replay")
        replay = DeliveryReplay(org_id=org_id, endpoint_id=endpoint_id, since=since, most=MOST_REPLAYED)
        return await self._store.deliveries.replay(replay)

    def org_secrets(self, org_id: str) -> list[str]:
        """Return the secrets for webhooks that jobs name: the org's and, during a change, the previous one.

        Empty where the operator has set no secret to derive them from.
        """
        return [secret_text(org_secret(read_secret(one), org_id)) for one in self._settings.webhook_secret or ()]

    async def _with_secret(self, endpoint: WebhookEndpoint) -> CreatedEndpoint:
        [secret, *_] = await self._secrets(endpoint, endpoint.created_at)
        return CreatedEndpoint(endpoint, secret_text(secret))

    async def _secrets(self, endpoint: WebhookEndpoint, now: Instant) -> tuple[bytes, ...]:
        """Return the secrets that sign at that time: the current one and, during the overlap, the previous one."""
        master = await self._store.access.signing_secret(ENDPOINT_SECRETS_PURPOSE)
        versions = [endpoint.version]
        if endpoint.former_until is not None and endpoint.former_until > now and endpoint.version > 1:
            versions.append(endpoint.version - 1)
        return tuple(endpoint_secret(master, endpoint.org_id, endpoint.endpoint_id, one) for one in versions)


def endpoint_health(endpoint: WebhookEndpoint, now: Instant) -> EndpointHealth:
    """Return the health of an endpoint: disabled, paused, failing or working."""
    if endpoint.disabled_at is not None:
        return "disabled"
    if endpoint.paused_until is not None and endpoint.paused_until > now:
        return "paused"
    return "failing" if endpoint.failures else "working"


def _usable_name(name: str) -> str:
    if len(name) > LONGEST_KEY_NAME or not name.isprintable():
        raise InvalidInput("name", f"name must have at most {LONGEST_KEY_NAME} characters, all of them printable")
    return name


def _usable_subjects(subjects: Sequence[Subject]) -> tuple[Subject, ...]:
    if not subjects:
        raise InvalidInput("events", "events must name at least one; to stop an endpoint, disable it")
    return tuple(dict.fromkeys(subjects))


def _test_event(endpoint: WebhookEndpoint, message_id: str, now: Instant, public_url: str | None) -> bytes:
    """Return a CloudEvent without a job."""
    moment = to_datetime(now)
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": public_url or "/",
        "type": TEST_TYPE,
        "subject": endpoint.endpoint_id,
        "time": moment,
        "timestamp": moment,
        "datacontenttype": "application/json",
        "data": {"org_id": endpoint.org_id, "endpoint_id": endpoint.endpoint_id, "occurred_at": moment},
    }
    return msgspec.json.encode(event)
