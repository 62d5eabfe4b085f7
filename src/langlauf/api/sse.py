"""Server-sent events (WHATWG HTML, 9.2): whole events as bytes, and responses limited in number and lifetime."""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Generic, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from langlauf.api.context import ApiContext
from langlauf.api.requests import drop_headers
from langlauf.api.wire import event_out
from langlauf.auth.caller import Caller
from langlauf.clock import draw
from langlauf.domain.errors import StoreError
from langlauf.domain.event import CloudEvent, Event
from langlauf.domain.read_models import EventLogPage
from langlauf.problems import VARY
from langlauf.server.asgi import abort_connection, watch_client
from langlauf.service.follower import Disconnectable, Signal
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure

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


# -- responses ---------------------------------------------------------------------------------------------------------

HEADERS = {"Cache-Control": "no-store", "Vary": f"{VARY}, Last-Event-ID", "X-Accel-Buffering": "no"}
_SENT = {"Content-Type": f"{EVENT_STREAM}; charset=utf-8", **HEADERS}
#: The headers of every stream, encoded once.
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _SENT.items()]
#: The last tenth of a lifetime is random: streams that began together do not all end together.
_DRAWN_LIFETIME = 0.1


class StreamWaiter(Disconnectable, Protocol):
    """Waits for something to send, and is woken by its event."""

    event: Signal
    left: bool

    @property
    def turned_away(self) -> bool:
        """Whether the caller may no longer see it."""


W = TypeVar("W", bound=StreamWaiter)
#: Reads the page after a position.
NextPage = Callable[[P], Awaitable[EventPage[P]]]


class EventStreamResponse(Response, ABC, Generic[W]):
    """One stream, sent in the task of its request."""

    def __init__(self, context: ApiContext, caller: Caller, first: bytes, *, job_id: str | None = None) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = _RAW_HEADERS
        self.followers = context.services.followers
        self.caller = caller
        self._settings = context.settings
        self._first = first
        self._job_id = job_id

    def slot(self) -> AbstractContextManager[object]:
        """Take a slot until the block ends; raise `NoStreamSlot` where none is left."""
        return self.followers.slots.take(self.caller.counted_as, "stream")

    @abstractmethod
    def following(self) -> AbstractContextManager[W]:
        """Follow what the stream is about, until the block ends."""

    @abstractmethod
    async def follow(self, waiting: W, /, sender: "StreamSender", ends_at: float) -> None:
        """Send until there is nothing more to send, or until that time of the loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send(self._start())
            await send({"type": "http.response.body", "body": b""})
            return
        drop_headers(scope)
        with self.slot(), self.following() as waiting:
            end_watch = watch_client(scope, receive, waiting)
            sender = StreamSender(send, self._settings.stream_patience)
            try:
                await sender.pass_on(self._start())
                await self._serve(waiting, sender)
            except TimeoutError:
                log_event(LogEvent.STREAM_CUT, job_id=self._job_id, request_id=self.caller.request_id)
                abort_connection(scope)
            except OSError:
                return  # some servers raise this when the client has disconnected
            except asyncio.CancelledError:  # another server than ours stops, and cancels its requests
                await sender.end_now()
                raise
            finally:
                end_watch()

    def _start(self) -> Message:
        return {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}

    async def _serve(self, waiting: W, sender: "StreamSender") -> None:
        """Send until the stream ends; an error ends it in a state that the client can resume from."""
        try:
            await sender.send(self._first)
            lifetime = self._settings.stream_lifetime * (1 - _DRAWN_LIFETIME * draw())
            await self.follow(waiting, sender, asyncio.get_running_loop().time() + lifetime)
        except OSError:  # the client has disconnected, or does not read
            raise
        except StoreError as error:
            log_store_failure(error)
        except Exception as error:  # noqa: BLE001 - the head is sent; the client reconnects and resumes
            log_event(LogEvent.REQUEST_FAILED, logging.ERROR, error=error, request_id=self.caller.request_id)
        await sender.end()

    async def wait(self, waiting: W, sender: "StreamSender", until: float) -> None:
        """Wait until there may be something to send, or until the deadline; send heartbeats meanwhile."""
        while not waiting.event.is_set():
            wake_at = min(until, sender.sent_at + self._settings.stream_heartbeat)
            if await waiting.event.wait_until(wake_at) or wake_at == until:
                return
            await sender.send(HEARTBEAT)

    def over(self, waiting: W) -> bool:
        """Whether the stream has to end: the client left, lost access, or the server stops."""
        return waiting.left or waiting.turned_away or self.followers.closing


class PagedEventStream(EventStreamResponse[W], Generic[W, P]):
    """A stream from a position in stored events: first those that exist, then new ones.

    It holds at most one page, and nothing of the store while it waits.
    """

    def __init__(
        self,
        context: ApiContext,
        caller: Caller,
        first: bytes,
        position: P,
        next_page: "NextPage[P]",
        *,
        job_id: str | None = None,
        look_again: float | None = None,
    ) -> None:
        super().__init__(context, caller, first, job_id=job_id)
        self.position = position
        self._next_page = next_page
        self._look_again = look_again

    async def follow(self, waiting: W, /, sender: "StreamSender", ends_at: float) -> None:
        """Send existing events, then new ones; without a wake-up, read again after `look_again` seconds."""
        loop = asyncio.get_running_loop()
        while not self.over(waiting) and loop.time() < ends_at:
            waiting.event.clear()
            page = await self._next_page(self.position)
            if page.body:
                await sender.send(page.body)
            if page.last is not None:
                self.position = page.last
            if page.over:
                return
            if not page.more:
                del page  # a waiting stream holds no page
                until = ends_at if self._look_again is None else min(ends_at, loop.time() + self._look_again)
                await self.wait(waiting, sender, until)


class StreamSender:
    """Sends parts of one response, each within a timeout: `TimeoutError` where the client does not read."""

    __slots__ = ("_patience", "_send", "sent_at")

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self.sent_at = 0.0

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send bytes; wait while the write buffer is full."""
        await self.pass_on({"type": "http.response.body", "body": body, "more_body": more})
        self.sent_at = asyncio.get_running_loop().time()

    async def pass_on(self, message: Message) -> None:
        """Pass a message to the server, which may have to wait for the client."""
        async with asyncio.timeout(self._patience):
            await self._send(message)

    async def end(self) -> None:
        """End the response cleanly."""
        await self.send(b"", more=False)

    async def end_now(self) -> None:
        """End the response without waiting, for a client that reads."""
        self._patience = 0.0
        with suppress(OSError, RuntimeError):  # no time is left, or the response had not begun
            await self.end()
