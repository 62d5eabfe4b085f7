"""Server-sent events as bytes (WHATWG HTML, 9.2). Whatever is made here is whole: an event is never cut in two."""

import re
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request

from langlauf.api.wire import event_out
from langlauf.clock import draw
from langlauf.domain.event import CloudEvent, Event
from langlauf.domain.read_models import EventLogPage

#: A comment: it keeps proxies from closing a silent connection, and carries no id.
HEARTBEAT = b":\n\n"
_RETRY_MILLISECONDS, _RETRY_SPREAD = 2_000, 2_000
_encoder = msgspec.json.Encoder()
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


P = TypeVar("P")


class EventPage(msgspec.Struct, Generic[P], frozen=True):
    """A part of a log or a feed, ready to be sent, perhaps to many."""

    body: bytes
    #: the position it leads to, None where there is nothing to go on from
    last: P | None
    more: bool
    over: bool
    #: something is there that may not be told yet
    held: bool = False


def opening(about: str) -> bytes:
    """The first bytes: when to come back after an end, each client at a moment of its own."""
    return b"retry: %d\n: %s\n\n" % (_RETRY_MILLISECONDS + int(_RETRY_SPREAD * draw()), about.encode())


def message(value: dict[str, object]) -> bytes:
    """A small message without an id: nobody comes back to it."""
    return b"data: %s\n\n" % _encoder.encode(value)


def position(text: str) -> bytes:
    """Where a client is that has seen no event since: it comes back to here."""
    return b"id: %s\n\n" % text.encode()


def encode(page: EventLogPage) -> EventPage[int]:
    """A part of a log as a stream carries it."""
    body = b"".join(map(_encode_event, page.events))
    return EventPage(body, page.events[-1].event_seq if page.events else None, page.more, page.over)


def _encode_event(event: Event) -> bytes:
    return _block(str(event.event_seq), event.event_type, event_out(event))


def encode_outbound(event: CloudEvent, place: str) -> bytes:
    """One event of a feed."""
    return _block(place, event.type, event)


def _block(number: str, kind: str, value: msgspec.Struct) -> bytes:
    """One event. In JSON a line break only stands between values, where a space means the same."""
    data = _encoder.encode(value).translate(_ONE_LINE)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), kind.encode(), data)


EVENT_STREAM = "text/event-stream"
_QUALITY = re.compile(r"^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$")


def wants_stream(request: Request) -> bool:
    """Whether a caller likes an event stream better than JSON, which is what callers get who like both alike."""
    accept = ",".join(request.headers.getlist("accept"))
    return quality(accept, EVENT_STREAM) > quality(accept, "application/json")


def quality(accept: str, media_type: str) -> float:
    """How much a header likes a media type: 0, not at all, to 1. The range that names it most closely counts."""
    kind = media_type.partition("/")[0]
    closeness = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best = (0, 0.0)
    for part in accept.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        rank = closeness.get(name, 0)
        if rank > best[0]:
            best = (rank, _weight(parameters))
    return best[1]


def _weight(parameters: list[str]) -> float:
    """The `q` of a range, 1 where there is none; one that cannot be read makes the range count for nothing."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return float(value) if _QUALITY.match(value.strip()) else 0.0
    return 1.0
