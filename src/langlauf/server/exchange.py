"""One request and its answer, between a connection and the application: what ASGI calls `receive` and `send`."""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Scope

from langlauf.server.transport import WATCH

if TYPE_CHECKING:
    from langlauf.server.connection import HttpConnection

_log = logging.getLogger(__name__)
#: So much of a body may be here unread by the application before no more of it is taken from the client.
_MOST_UNREAD = 65_536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = (204, 304)


def _status_line(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return b"HTTP/1.1 %d %s\r\n" % (status, phrase.encode())


STATUS_LINES = {status: _status_line(status) for status in range(100, 600)}


class RequestCycle:
    """One request and its answer. The head of an answer goes with the first part of its body, in one write."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_expects",
        "_head",
        "_is_head",
        "_left",
        "_more_body",
        "_news",
        "_on_leave",
        "_waiter",
        "complete",
        "disconnected",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, connection: "HttpConnection", scope: Scope, *, keep_alive: bool, expects: bool) -> None:
        self.scope = scope
        scope[WATCH] = self.watch
        self.keep_alive = keep_alive
        #: whether the client is gone
        self.disconnected = False
        #: whether the answer has begun, and whether all of it was written
        self.started = False
        self.complete = False
        self._connection = connection
        #: whether the client waits to be told that it may send its body
        self._expects = expects
        self._body = b""
        self._more_body = True
        #: whether there is something that `receive` has not told yet, and who waits for it
        self._news = False
        self._waiter: asyncio.Future[None] | None = None
        #: who else is told when the client has gone
        self._on_leave: Callable[[], None] | None = None
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._chunked = False
        #: how much of the answer is still to come, where it said how long it is
        self._left = 0

    # -- from the connection -------------------------------------------------------------------------------------------

    def take(self, body: bytes) -> bool:
        """Take a part of the request's body, and return whether that is enough for now."""
        self._body += body
        self.wake()
        return len(self._body) > _MOST_UNREAD

    def end_of_body(self) -> None:
        """All of the request is here."""
        self._more_body = False
        self.wake()

    def let_go(self) -> None:
        """Tell the application that the client is gone."""
        if not self.complete:
            self.disconnected = True
            if self._on_leave is not None:
                self._on_leave()
        self.wake()

    def watch(self, on_leave: Callable[[], None] | None) -> None:
        """Call this when the client has gone, and at once if it has."""
        self._on_leave = on_leave
        if on_leave is not None and self.disconnected:
            on_leave()
        elif on_leave is not None:
            self._connection.resume_reading()

    def wake(self) -> None:
        """Let `receive` look."""
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer. What it could not say as an answer ends the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not leave a connection half answered
            _log.error("a request failed after its answer had begun", exc_info=error)
        if not self.complete and not self.disconnected:
            self._connection.hang_up()

    # -- from the application ------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the next part of the request, or that its client has gone or has its answer."""
        connection = self._connection
        if self._expects:
            self._expects = False
            if not connection.transport.is_closing():
                connection.transport.write(_CONTINUE)
        if not self.disconnected and not self.complete:
            connection.resume_reading()
            if not self._news:
                self._waiter = connection.loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
            self._news = False
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body, self._body = self._body, b""
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    async def send(self, message: Message) -> None:
        """Write a part of the answer; wait while the client does not read what was written before."""
        connection = self._connection
        if connection.writable is not None and not self.disconnected:
            await connection.writable.wait()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        if not self.started or self.complete:
            raise RuntimeError(f"{message['type']} out of its turn")
        more = message.get("more_body", False)
        data = self._head + self._framed(message.get("body", b""), more=more)
        self._head = b""
        if data:
            connection.transport.write(data)
        if not more:
            if self._left:
                raise RuntimeError("the answer is shorter than it said")
            self.complete = True
            self.wake()
            if not self.keep_alive:
                connection.hang_up()
            connection.answered()

    def _begin(self, message: Message) -> None:
        """Keep the head until the first part of the body: an answer is not begun before there is one."""
        if self.started:
            raise RuntimeError("an answer begins once")
        self.started = True
        self._expects = False
        status = message["status"]
        lines = [STATUS_LINES[status], self._connection.date_line()]
        has_length = closes = False
        for name, value in message.get("headers", ()):
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                has_length, self._left = True, 0 if self._is_head else int(value)
            elif name == b"connection":
                closes = closes or value.lower() == b"close"
        if closes:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if not has_length and not self._is_head and status not in _NO_BODY:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\x00" in head:
            raise RuntimeError("a header has a line break")
        self._head = head

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        if self._is_head:
            return b""
        if self._chunked:
            end = b"" if more else b"0\r\n\r\n"
            return b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        if len(body) > self._left:
            raise RuntimeError("the answer is longer than it said")
        self._left -= len(body)
        return body
