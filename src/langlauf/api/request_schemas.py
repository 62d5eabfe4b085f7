"""Request bodies. The same structs read requests and make the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from langlauf.auth.tokens import LONGEST_SECONDS
from langlauf.domain.access import LONGEST_KEY_NAME
from langlauf.domain.delivery import SUBJECTS, Subject
from langlauf.domain.job import PriorityClass
from langlauf.domain.mail import LONGEST_MAIL_ADDRESS, MAIL_ADDRESS_PATTERN
from langlauf.domain.webhook import LONGEST_WEBHOOK_URL
from langlauf.service.webhooks import LONGEST_OVERLAP
from langlauf.settings_values import LONGEST_DURATION

KeyScope = Literal["submit", "read", "cancel", "admin"]
#: A text like `30m`, over nothing; how long it may be no pattern can say.
DURATION_TEXT = {"pattern": r"^(?=[^1-9]*[1-9])\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$"}
_DurationText = Annotated[str, msgspec.Meta(max_length=20, extra_json_schema=DURATION_TEXT)]
#: Seconds, or a text like `30m`. What is too long is told by what reads it, in words.
Duration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_DURATION})] | _DurationText
TokenDuration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_SECONDS})] | _DurationText
MaxRetries = Annotated[int, msgspec.Meta(ge=0, le=100)]
NotificationId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
WebhookAddress = Annotated[
    str,
    msgspec.Meta(
        description="A public https address; http and other ports only where the operator allowed the range.",
        extra_json_schema={"format": "uri", "maxLength": LONGEST_WEBHOOK_URL, "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"},
    ),
]
MailAddress = Annotated[
    str,
    msgspec.Meta(
        description="One plain e-mail address.",
        extra_json_schema={"format": "email", "maxLength": LONGEST_MAIL_ADDRESS, "pattern": MAIL_ADDRESS_PATTERN},
    ),
]


class NotifyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whom to tell of the job's end, besides the endpoints of the org."""

    webhook: WebhookAddress | None = None
    email: MailAddress | None = None
    #: of the mail
    language: Literal["en", "de"] | None = None


class AsyncMode(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How a request is answered and its job treated."""

    requested: bool = False
    priority_class: PriorityClass = "default"
    max_retries: MaxRetries | None = None
    allow_duplicate: bool = False
    notify: NotifyBody | None = None


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything of a request that is not the analysis' own input."""

    async_mode: AsyncMode = AsyncMode()


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a job is to stop."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class HoldBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a result is to be kept."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whether a new job starts with the finished chunks of the old one."""

    resume: bool = True


class CreateKeyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a new key is for, what it may do, and how long it lives: seconds, or a text like `30d`."""

    name: Annotated[str, msgspec.Meta(max_length=LONGEST_KEY_NAME)] = ""
    scopes: Annotated[list[KeyScope], msgspec.Meta(min_length=1, max_length=10)] | None = None
    expires_in: Duration | None = None


class TokenBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long a token lives: seconds, or a text like `10m`; an hour unless said, a day at the most.

    With `cancel` it may also stop its job.
    """

    expires_in: TokenDuration | None = None
    cancel: bool = False


class ReadBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which messages were seen: one, some, or all up to an instant."""

    notification_id: NotificationId | msgspec.UnsetType = msgspec.UNSET
    notification_ids: Annotated[list[NotificationId], msgspec.Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET
    until: Annotated[datetime, msgspec.Meta(tz=True)] | msgspec.UnsetType = msgspec.UNSET


_OverlapText = Annotated[str, msgspec.Meta(max_length=20, pattern=r"^\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$")]
#: From nothing on; what is too long as a text is told by what reads it.
Overlap = Annotated[float, msgspec.Meta(ge=0, extra_json_schema={"maximum": LONGEST_OVERLAP})] | _OverlapText
EndpointName = Annotated[str, msgspec.Meta(max_length=LONGEST_KEY_NAME)]
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
