"""What the lists of every store have in common."""

from collections.abc import Sequence
from typing import Any

from langlauf.domain.inbox import InboxPage, Message

#: A message that somebody has seen is passed over when those nobody has are counted: so many at the most for each.
_SEEN_PER_UNREAD = 10
#: Of the message of a failure, as much as tells its cause.
LONGEST_MESSAGE = 300


def merged(unfinished: Sequence[Any], finished: Sequence[Any]) -> list[Any]:
    """Rows of a history, newest first: (what it is found by, when it was accepted, job id)."""
    return sorted([*unfinished, *finished], key=lambda row: (row[1], row[2]), reverse=True)


def inbox_page(messages: list[Message], limit: int) -> InboxPage:
    """A page of messages, of which one more than fits was read."""
    if len(messages) <= limit:
        return InboxPage(messages, None)
    last = messages[limit - 1].notification
    return InboxPage(messages[:limit], (last.created_at, last.notification_id))


def unread_walk(most: int) -> int:
    """How many messages are looked at to find so many that nobody has seen."""
    return most * _SEEN_PER_UNREAD
