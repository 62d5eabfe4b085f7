"""Responses of server-sent events: limited in number and lifetime, with heartbeats, and ended cleanly."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Generic, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from langlauf.api.context import ApiContext
from langlauf.api.requests import drop_headers
from langlauf.api.sse import EVENT_STREAM, HEARTBEAT, EventPage
from langlauf.auth.caller import Caller
from langlauf.clock import draw
from langlauf.domain.errors import StoreError
from langlauf.problems import VARY
from langlauf.server.asgi import abort_connection, watch_client
from langlauf.service.follower import Disconnectable, Signal
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure

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
P = TypeVar("P")
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
