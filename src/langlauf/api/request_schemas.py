"""Request bodies. The same structs read requests and make the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from langlauf.auth.credentials import LONGEST_SECONDS
from langlauf.domain.access import LONGEST_KEY_NAME
from langlauf.domain.delivery import SUBJECTS, Subject
from langlauf.domain.job import LONGEST_LABEL, PriorityClass
from langlauf.domain.mail import LONGEST_MAIL_ADDRESS, MAIL_ADDRESS_PATTERN
from langlauf.domain.schedule import Missed, RunOverlap, ScheduleName
from langlauf.domain.webhook import LONGEST_WEBHOOK_URL
from langlauf.service.webhooks import LONGEST_OVERLAP
from langlauf.settings_values import LONGEST_DURATION

KeyScope = Literal["submit", "read", "cancel", "admin", "debug"]
#: A text like `30m`, over 0; a pattern cannot express its maximum.
DURATION_TEXT = {"pattern": r"^(?=[^1-9]*[1-9])\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$"}
_DurationText = Annotated[str, msgspec.Meta(max_length=20, extra_json_schema=DURATION_TEXT)]
#: Seconds, or a text like `30m`. The reader checks the maximum.
Duration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_DURATION})] | _DurationText
TokenDuration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_SECONDS})] | _DurationText
ZonedTime = Annotated[
    datetime, msgspec.Meta(tz=True, description="RFC 3339 with a zone, such as 2027-01-31T06:00:00+01:00.")
]
MaxRetries = Annotated[int, msgspec.Meta(ge=0, le=100)]
Label = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=LONGEST_LABEL,
        description="What people read instead of the input: in lists, in the inbox and in mails.",
        examples=["Branch office, Bern"],
    ),
]
NotificationId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
WebhookAddress = Annotated[
    str,
    msgspec.Meta(
        description="A public https URL; http and other ports only where the operator allowed the range.",
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
    """Where to send the end of the job, besides the endpoints of the org."""

    webhook: WebhookAddress | None = None
    email: MailAddress | None = None
    #: the language of the mail
    language: Literal["en", "de"] | None = None


class LaterStart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """When the job may start, and when it is too late for that."""

    #: when it may start, with a zone; or after so many seconds
    run_at: ZonedTime | None = None
    delay_seconds: Duration | None = None
    #: when it is canceled unless it has started
    start_by: ZonedTime | None = None

    @property
    def waits(self) -> bool:
        """Whether the job waits for a time: no request can wait for its result."""
        return self.run_at is not None or self.delay_seconds is not None


class AsyncMode(LaterStart, frozen=True):
    """How the request is answered and its job is run."""

    requested: bool = False
    priority_class: PriorityClass = "default"
    max_retries: MaxRetries | None = None
    allow_duplicate: bool = False
    label: Label | None = None
    notify: NotifyBody | None = None
    #: false runs the analysis although a result could be reused
    reuse: bool = True
    #: the job whose input this one started from, with changes
    based_on: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


ScheduleZone = Annotated[str, msgspec.Meta(max_length=64, description="A time zone such as Europe/Zurich.")]
Cron = Annotated[str, msgspec.Meta(max_length=200, description="Five fields, such as 0 6 * * 1-5.")]


class CreateScheduleBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A new schedule, with either `cron` or `every_seconds`."""

    name: ScheduleName
    analysis: str | None = None
    input: dict[str, Any] = {}
    cron: Cron | None = None
    every_seconds: Duration | None = None
    zone: ScheduleZone = "UTC"
    overlap: RunOverlap = "skip"
    missed: Missed = "once"
    paused: bool = False
    notify: NotifyBody | None = None


class ChangeScheduleBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What is to change of a schedule; a new kind of time replaces the old one."""

    analysis: str | msgspec.UnsetType = msgspec.UNSET
    input: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    cron: Cron | msgspec.UnsetType = msgspec.UNSET
    every_seconds: Duration | msgspec.UnsetType = msgspec.UNSET
    zone: ScheduleZone | msgspec.UnsetType = msgspec.UNSET
    overlap: RunOverlap | msgspec.UnsetType = msgspec.UNSET
    missed: Missed | msgspec.UnsetType = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    notify: NotifyBody | msgspec.UnsetType | None = msgspec.UNSET


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything of a request besides the input of the analysis."""

    async_mode: AsyncMode = AsyncMode()


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a job is canceled."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class NotifyJobBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Who gets a mail when the job ends."""

    email: MailAddress
    #: the language of the mail
    language: Literal["en", "de"] | None = None


class HoldBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a result is held."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class PauseBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why an analysis is paused, until when, and for whom."""

    because: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    #: for all orgs, which is the operator's alone
    all_orgs: bool = False


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whose pause of an analysis ends."""

    all_orgs: bool = False


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whether a new job starts with the finished chunks of the old one."""

    resume: bool = True


class CreateKeyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The name, scopes and lifetime of a new key: seconds, or a text like `30d`."""

    name: Annotated[str, msgspec.Meta(max_length=LONGEST_KEY_NAME)] = ""
    scopes: Annotated[list[KeyScope], msgspec.Meta(min_length=1, max_length=10)] | None = None
    expires_in: Duration | None = None


class TokenBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The lifetime of a token: seconds, or a text like `10m`; by default an hour, at most a day.

    With `cancel` it may also cancel its job.
    """

    expires_in: TokenDuration | None = None
    cancel: bool = False


class ReadBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which messages are read: one, some, or all up to an instant."""

    notification_id: NotificationId | msgspec.UnsetType = msgspec.UNSET
    notification_ids: Annotated[list[NotificationId], msgspec.Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET
    until: Annotated[datetime, msgspec.Meta(tz=True)] | msgspec.UnsetType = msgspec.UNSET


_OverlapText = Annotated[str, msgspec.Meta(max_length=20, pattern=r"^\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$")]
#: From 0; the reader checks the maximum of a text.
Overlap = Annotated[float, msgspec.Meta(ge=0, extra_json_schema={"maximum": LONGEST_OVERLAP})] | _OverlapText
EndpointName = Annotated[str, msgspec.Meta(max_length=LONGEST_KEY_NAME)]
Subjects = Annotated[list[Subject], msgspec.Meta(min_length=1, max_length=len(SUBJECTS))]


class CreateWebhookBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The URL, name and event types of an endpoint; by default it gets the ends of jobs."""

    url: WebhookAddress
    name: EndpointName = ""
    events: Subjects | None = None


class ChangeWebhookBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The fields to change; others stay. The URL cannot change: add another endpoint instead."""

    name: EndpointName | None = None
    events: Subjects | None = None
    enabled: bool | None = None


class RotateBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long the previous secret stays valid: seconds, or a text like `12h`; by default a day."""

    overlap: Overlap | None = None


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """From which time on; by default all failed messages that are still stored."""

    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
