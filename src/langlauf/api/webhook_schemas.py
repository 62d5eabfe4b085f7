"""The shapes of endpoints and deliveries on the wire."""

from datetime import datetime
from typing import Annotated

import msgspec

from langlauf.api.schemas import Address, Answer, NotificationOut, WebhookAddress
from langlauf.domain.delivery import SUBJECTS, Subject
from langlauf.domain.job import Count, Name, Seconds
from langlauf.domain.keys import LONGEST_NAME
from langlauf.domain.notification import DeliveryStatus
from langlauf.service.webhooks import LONGEST_OVERLAP, Standing

_DurationText = Annotated[str, msgspec.Meta(max_length=20, pattern=r"^\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$")]
#: From nothing on; what is too long as a text is told by what reads it.
Overlap = Annotated[float, msgspec.Meta(ge=0, extra_json_schema={"maximum": LONGEST_OVERLAP})] | _DurationText
EndpointName = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Subjects = Annotated[list[Subject], msgspec.Meta(min_length=1, max_length=len(SUBJECTS))]


class CreateWebhookBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where to call, what that is, and what it hears of; the ends of jobs unless told otherwise."""

    url: WebhookAddress
    name: EndpointName = ""
    events: Subjects | None = None


class ChangeWebhookBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is to be different; what is not named stays. An address does not change: that is another endpoint."""

    name: EndpointName | None = None
    events: Subjects | None = None
    enabled: bool | None = None


class RotateBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long the secret before stays good: seconds, or a text like `12h`; a day unless said."""

    overlap: Overlap | None = None


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From which moment on; all that is still there unless said."""

    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class EndpointOut(msgspec.Struct, kw_only=True):
    """An endpoint as the org's admins see it. Its secret is not in it, and cannot be read again."""

    endpoint_id: str
    org_id: Name
    url: Address
    name: str
    events: list[Subject]
    status: Standing
    created_at: datetime
    secret_version: Count
    former_secret_until: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    failures: Count
    failing_since: datetime | None
    paused_until: datetime | None


class DeliveryOut(NotificationOut, kw_only=True):
    """A message to the world outside: to an endpoint, or to the address that its job named.

    Of an e-mail address only as much is told as is needed to recognise it.
    """

    endpoint_id: str | None
    target: str | None


class AttemptOut(msgspec.Struct, kw_only=True):
    """One try to send: what came back, and what became of the message by it."""

    attempt: Count
    at: datetime
    seconds: Seconds
    status: DeliveryStatus
    status_code: int | None
    error: str | None
    reply: str | None


class EndpointsAnswer(Answer, kw_only=True):
    """An org's endpoints."""

    webhooks: list[EndpointOut]


class EndpointAnswer(Answer, kw_only=True):
    """One endpoint."""

    webhook: EndpointOut


class MadeEndpointAnswer(EndpointAnswer, kw_only=True):
    """An endpoint with a new secret, which nobody can read again."""

    secret: Annotated[str, msgspec.Meta(pattern="^whsec_")]


class OrgSecretAnswer(Answer, kw_only=True):
    """What signs for the addresses that the org's jobs name, and while it changes the one before.

    Both are null where the operator has set no `LANGLAUF_WEBHOOK_SECRET`.
    """

    secret: Annotated[str, msgspec.Meta(pattern="^whsec_")] | None
    former_secret: Annotated[str, msgspec.Meta(pattern="^whsec_")] | None


class RemovedAnswer(Answer, kw_only=True):
    """The endpoint that is no longer there."""

    endpoint_id: str


class TestAnswer(Answer, kw_only=True):
    """What came back: `taken` says whether the receiver answered with 2xx."""

    taken: bool
    seconds: Seconds
    status_code: int | None
    error: str | None
    reply: str | None


class DeliveriesAnswer(Answer, kw_only=True):
    """A page of an org's deliveries."""

    deliveries: list[DeliveryOut]
    next_cursor: str | None


class DeliveryAnswer(Answer, kw_only=True):
    """One delivery with its attempts, the last one first."""

    delivery: DeliveryOut
    attempts: list[AttemptOut]


class ReplayedAnswer(Answer, kw_only=True):
    """A delivery that is on its way again."""

    delivery: DeliveryOut


class ReplayAnswer(Answer, kw_only=True):
    """How many deliveries are on their way again; `more` says that there are others, for another call."""

    replayed: Count
    more: bool
