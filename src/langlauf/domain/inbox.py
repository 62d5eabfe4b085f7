"""An org's inbox: the messages about its jobs, newest first, and which of them nobody has seen yet."""

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.notification import Notification
from langlauf.domain.views import JobView


class InboxMessage(msgspec.Struct, frozen=True):
    """A message with the job it tells of, as that is now."""

    notification: Notification
    view: JobView
    unread: bool


class InboxPage(msgspec.Struct, frozen=True):
    """Some messages. Where `after` is not None there are more: the next page starts before that position."""

    messages: list[InboxMessage]
    after: tuple[Instant, str] | None


class MarkRead(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody has seen one message, or all up to an instant.

    All are one row, however many they are: the instant up to which the org has seen everything.
    """

    org_id: str
    notification_id: str | None = None
    until: Instant | None = None
