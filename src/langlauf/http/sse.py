"""Server-sent events as bytes (WHATWG HTML, 9.2). Whatever is made here is whole: an event is never cut in two."""

import msgspec

from langlauf.clock import draw
from langlauf.domain.event import Event
from langlauf.domain.views import LogPage
from langlauf.http.presenting import event_out

#: A comment: it keeps proxies from closing a silent connection, and carries no id.
HEARTBEAT = b":\n\n"
_RETRY_MILLISECONDS, _RETRY_SPREAD = 2_000, 2_000
_encoder = msgspec.json.Encoder()
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class EventPage(msgspec.Struct, frozen=True):
    """A part of a log, ready to be sent, perhaps to many."""

    body: bytes
    #: the number of its last event, None where there is none
    last: int | None
    more: bool
    over: bool


def opening(about: str) -> bytes:
    """The first bytes: when to come back after an end, each client at a moment of its own."""
    return b"retry: %d\n: %s\n\n" % (_RETRY_MILLISECONDS + int(_RETRY_SPREAD * draw()), about.encode())


def message(value: dict[str, object]) -> bytes:
    """A small message without an id: nobody comes back to it."""
    return b"data: %s\n\n" % _encoder.encode(value)


def encode(page: LogPage) -> EventPage:
    """A part of a log as a stream carries it."""
    body = b"".join(map(_encode_event, page.events))
    return EventPage(body, page.events[-1].event_seq if page.events else None, page.more, page.over)


def _encode_event(event: Event) -> bytes:
    """One event. In JSON a line break only stands between values, where a space means the same."""
    data = _encoder.encode(event_out(event)).translate(_ONE_LINE)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.event_seq, event.event_type.encode(), data)
