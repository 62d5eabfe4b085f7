"""Server-sent events as bytes (WHATWG HTML, 9.2), always whole events, and negotiation between them and JSON."""

import re
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request

from langlauf.api.wire import event_out
from langlauf.clock import draw
from langlauf.domain.event import CloudEvent, Event
from langlauf.domain.read_models import EventLogPage

#: A comment that keeps proxies from closing a silent connection. It has no id.
HEARTBEAT = b":\n\n"
_RETRY_MILLISECONDS, _RETRY_SPREAD = 2_000, 2_000
_encoder = msgspec.json.Encoder()
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


P = TypeVar("P")


class EventPage(msgspec.Struct, Generic[P], frozen=True):
    """Encoded events of a log or a feed, which several streams may share."""

    body: bytes
    #: the position after it; None where it has no events
    last: P | None
    more: bool
    over: bool
    #: events exist that may not be read yet
    held: bool = False


def opening(about: str) -> bytes:
    """Return the first bytes of a stream, with a jittered time for reconnecting."""
    return b"retry: %d\n: %s\n\n" % (_RETRY_MILLISECONDS + int(_RETRY_SPREAD * draw()), about.encode())


def message(value: dict[str, object]) -> bytes:
    """Return a message without an id: a client does not resume from it."""
    return b"data: %s\n\n" % _encoder.encode(value)


def position(text: str) -> bytes:
    """Return an id without an event: a client resumes from this position."""
    return b"id: %s\n\n" % text.encode()


def encode(page: EventLogPage) -> EventPage[int]:
    """Encode a page of a log."""
    body = b"".join(map(_encode_event, page.events))
    return EventPage(body, page.events[-1].event_seq if page.events else None, page.more, page.over)


def _encode_event(event: Event) -> bytes:
    return _block(str(event.event_seq), event.event_type, event_out(event))


def encode_outbound(event: CloudEvent, place: str) -> bytes:
    """Encode one event of a feed."""
    return _block(place, event.type, event)


def _block(number: str, kind: str, value: msgspec.Struct) -> bytes:
    """Encode one event. In JSON a line break only occurs between values, where a space means the same."""
    data = _encoder.encode(value).translate(_ONE_LINE)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), kind.encode(), data)


EVENT_STREAM = "text/event-stream"
_QUALITY = re.compile(r"^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$")


def wants_stream(request: Request) -> bool:
    """Whether the client prefers an event stream to JSON."""
    return prefers(request, EVENT_STREAM)


def prefers(request: Request, media_type: str) -> bool:
    """Whether the client prefers a media type to JSON; without a preference it gets JSON (RFC 9110, 12.5.1)."""
    accept = ",".join(request.headers.getlist("accept"))
    return quality(accept, media_type) > quality(accept, "application/json")


def quality(accept: str, media_type: str) -> float:
    """Return the quality of a media type in an Accept header, from 0 to 1. The most specific range counts."""
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
    """Return the `q` of a range, by default 1; a malformed one counts as 0."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return float(value) if _QUALITY.match(value.strip()) else 0.0
    return 1.0
