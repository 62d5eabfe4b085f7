"""A job's log as server-sent events: what is stored, then what happens, until the job ends or the client leaves.

A stream is a position in the durable log. It holds one page at the most, and nothing of the store while it waits; a
client that reads slowly is behind in the log, not in a buffer. However a stream ends, a client that comes back with the
number of the last event it has gets the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from langlauf.clock import draw
from langlauf.domain.errors import StoreError
from langlauf.domain.views import JobView, Pulse
from langlauf.http.context import Context
from langlauf.http.negotiating import EVENT_STREAM
from langlauf.http.problems import VARY, bad_request
from langlauf.http.requests import header_number, refuse_unknown, whole_number
from langlauf.http.sse import HEARTBEAT, EventPage, encode, opening
from langlauf.http.transport import transport_of
from langlauf.service.follow import Follower
from langlauf.service.sharing import SharedReads
from langlauf.service.tenant import Caller
from langlauf.telemetry import Fact, tell

#: A page: so many events, or a little over so many bytes. A stream never holds more.
PAGE_EVENTS, PAGE_BYTES = 100, 64 * 1024
_HEADERS = {"Cache-Control": "no-store", "Vary": f"{VARY}, Last-Event-ID", "X-Accel-Buffering": "no"}
#: The last tenth of a lifetime is drawn: streams that began together do not all end together.
_DRAWN_LIFETIME = 0.1
#: For a connection that was cut to be gone.
_CUT_SECONDS = 1.0
NextPage = Callable[[int], Awaitable[EventPage]]


class Streams:
    """The event streams of one application."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pages: SharedReads[EventPage] = SharedReads(lambda page: page.last is not None)

    async def answer(self, request: Request, caller: Caller, view: JobView) -> Response:
        """A stream from where the caller is, or 204 where nothing follows and nothing ever will."""
        refuse_unknown(request, "after", "limit")
        if "limit" in request.query_params:
            raise bad_request("limit is for pages; an event stream goes on until the job ends.", "limit")
        job, newest = view.job, view.job.event_seq
        after = whole_number(request, "after", default=0, lowest=0, highest=newest)
        # A client that connects again keeps its address, so what it adds to it counts.
        after = header_number(request, "Last-Event-ID", default=after, highest=newest)
        if job.terminal:
            rest = await self._context.services.reads.of(caller).log(job.job_id, after=after, limit=1, most_bytes=1)
            if not rest.events:
                return Response(status_code=204, headers=_HEADERS)
        return EventStream(self._context, caller, view, after, partial(self._next_page, caller, job.job_id))

    async def _next_page(self, caller: Caller, job_id: str, after: int) -> EventPage:
        """What follows a number; streams of one job that wait for the same read it together."""

        async def read() -> EventPage:
            reads = self._context.services.reads.of(caller)
            return encode(await reads.log(job_id, after=after, limit=PAGE_EVENTS, most_bytes=PAGE_BYTES))

        return await self._pages.get((caller.org_id, job_id, after), read)


class EventStream(Response):
    """One stream, sent by itself: the one task of its request, and a second that notices when the client leaves."""

    media_type = EVENT_STREAM

    def __init__(self, context: Context, caller: Caller, view: JobView, after: int, next_page: NextPage) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_HEADERS)
        self._followers = context.services.followers
        self._settings = context.settings
        self._caller = caller
        self._job = (view.job.org_id, view.job.job_id)
        self._position = after
        self._next_page = next_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        _, job_id = self._job
        with (
            self._followers.places.take(self._caller.org_id, "stream"),
            self._followers.following(self._caller, job_id, self._is_news) as follower,
        ):
            follower.job = self._job
            watching = asyncio.create_task(watch_client(receive, follower), name="stream client")
            sender = _Sender(send, self._settings.stream_patience)
            try:
                await sender.pass_on(start)
                await self._serve(follower, sender)
            except TimeoutError:
                tell(Fact.STREAM_CUT, job_id=job_id, request_id=self._caller.request_id)
                await _cut(scope, watching)
            except OSError:
                return  # some servers say so when the client is gone
            except asyncio.CancelledError:  # another server than ours stops, and waits no longer
                await sender.end_now()
                raise
            finally:
                watching.cancel()

    async def _serve(self, follower: Follower, sender: "_Sender") -> None:
        """Sends until there is a reason to end; whatever goes wrong ends the stream where the client can go on."""
        try:
            await sender.send(opening())
            await self._follow(follower, sender)
        except OSError:  # the client is gone, or does not read: nothing more can be sent
            raise
        except StoreError as error:
            tell(Fact.STORE_UNAVAILABLE, logging.ERROR, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the head of the answer is sent; the client comes back and goes on
            tell(Fact.REQUEST_FAILED, logging.ERROR, error=error, request_id=self._caller.request_id)
        await sender.end()

    async def _follow(self, follower: Follower, sender: "_Sender") -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._settings.stream_lifetime * (1 - _DRAWN_LIFETIME * draw())
        while not self._over(follower) and loop.time() < ends_at:
            follower.event.clear()
            page = await self._next_page(self._position)
            if page.last is not None:
                await sender.send(page.body)
                self._position = page.last
            if page.over:
                return
            if not page.more:
                del page  # nothing is held while nothing happens
                await self._wait(follower, sender, ends_at)

    async def _wait(self, follower: Follower, sender: "_Sender", ends_at: float) -> None:
        """Until there may be something to send, or the time is over; a comment now and then tells that all is well."""
        while not follower.event.is_set():
            wake_at = min(ends_at, sender.sent_at + self._settings.stream_heartbeat)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wake_at):
                    await follower.event.wait()
                return
            if wake_at == ends_at:
                return
            await sender.send(HEARTBEAT)

    def _over(self, follower: Follower) -> bool:
        return follower.left or follower.turned_away or self._followers.closing

    def _is_news(self, pulse: Pulse | None) -> bool:
        return pulse is None or pulse.event_seq > self._position or pulse.events_expired


class _Sender:
    """Sends parts of one answer, each within a time: `TimeoutError` where the client does not read."""

    __slots__ = ("_patience", "_send", "sent_at")

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self.sent_at = 0.0

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Sends bytes; waits while too many are on their way."""
        await self.pass_on({"type": "http.response.body", "body": body, "more_body": more})
        self.sent_at = asyncio.get_running_loop().time()

    async def pass_on(self, message: Message) -> None:
        """Hands a message to the server, which may have to wait for the client."""
        async with asyncio.timeout(self._patience):
            await self._send(message)

    async def end(self) -> None:
        """The clean end."""
        await self.send(b"", more=False)

    async def end_now(self) -> None:
        """The same where nothing may wait any more: for a client that reads."""
        self._patience = 0.0
        with suppress(OSError, RuntimeError):  # no time is left, or the answer had not begun
            await self.end()


async def watch_client(receive: Receive, follower: Follower) -> None:
    """Tells a stream or a poll when its client has gone, also while nothing is sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
    follower.leave()


async def _cut(scope: Scope, watching: "asyncio.Task[None]") -> None:
    """Ends a connection whose client does not read: closing it would wait for the client."""
    transport = transport_of(scope)
    if transport is None:
        return  # another server than ours: it closes the connection of an answer that was not completed
    transport.abort()
    await asyncio.wait({watching}, timeout=_CUT_SECONDS)
