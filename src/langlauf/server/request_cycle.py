"""One request and its response, between a connection and the ASGI application: `receive` and `send`."""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Scope

from langlauf.problems import Problem
from langlauf.server.asgi import WATCH_CLIENT, root_url
from langlauf.server.problem_response import problem_response

if TYPE_CHECKING:
    from langlauf.server.connection import HttpConnection

_log = logging.getLogger(__name__)
#: Above this many bytes that the application has not read, the connection stops reading from the client.
_MOST_UNREAD = 65_536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = (204, 304)


def _status_line(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return b"HTTP/1.1 %d %s\r\n" % (status, phrase.encode())


_STATUS_LINES = {status: _status_line(status) for status in range(100, 600)}


def encode_problem(problem: Problem, request_id: str, date: bytes, public_url: str | None) -> bytes:
    """Return a whole response that closes the connection, for a refusal without the application."""
    response = problem_response(problem, request_id, root_url({}, public_url))
    headers = [
        *response.raw_headers,
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"".join([_STATUS_LINES[problem.status], date, *lines, b"\r\n", bytes(response.body)])


class RequestCycle:
    """One request and its response. The head of a response is written with the first part of its body."""

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
        "_on_disconnect",
        "_waiter",
        "complete",
        "disconnected",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, connection: "HttpConnection", scope: Scope, *, keep_alive: bool, expects: bool) -> None:
        self.scope = scope
        scope[WATCH_CLIENT] = self.watch
        self.keep_alive = keep_alive
        #: whether the client has disconnected
        self.disconnected = False
        #: whether the response has begun, and whether all of it was written
        self.started = False
        self.complete = False
        self._connection = connection
        #: whether the client waits for 100 Continue before it sends its body
        self._expects = expects
        self._body = b""
        self._more_body = True
        #: whether there is something that `receive` has not returned yet, and the future it waits for
        self._news = False
        self._waiter: asyncio.Future[None] | None = None
        #: called when the client has disconnected
        self._on_disconnect: Callable[[], None] | None = None
        self._head = b""
        self._is_head = scope["method"] == "HEAD"
        self._chunked = False
        #: bytes of the response still to come, where it has a Content-Length
        self._left = 0

    # -- called by the connection --------------------------------------------------------------------------------------

    def add_body(self, body: bytes) -> bool:
        """Buffer a part of the request's body, and return whether the buffer is full."""
        self._body += body
        self.wake()
        return len(self._body) > _MOST_UNREAD

    def end_of_body(self) -> None:
        """Mark the body of the request as complete."""
        self._more_body = False
        self.wake()

    def disconnect(self) -> None:
        """Report to the application that the client has disconnected."""
        if not self.complete:
            self.disconnected = True
            if self._on_disconnect is not None:
                self._on_disconnect()
        self.wake()

    def watch(self, on_disconnect: Callable[[], None] | None) -> None:
        """Call this when the client disconnects, and at once if it has."""
        self._on_disconnect = on_disconnect
        if on_disconnect is not None and self.disconnected:
            on_disconnect()
        elif on_disconnect is not None:
            self._connection.resume_reading()

    def wake(self) -> None:
        """Wake `receive`."""
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run(self, app: ASGIApp) -> None:
        """Run the application. A failure after the response has begun closes the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - no error may leave a connection with a partial response
            _log.error("a request failed after its response had begun", exc_info=error)
        if not self.complete and not self.disconnected:
            self._connection.close_gracefully()
        # It and its scope refer to each other; apart, they need no garbage collection, which stops all threads.
        self.scope.pop(WATCH_CLIENT, None)

    # -- called by the application -------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the next part of the request, or a disconnect when the client has gone or has its response."""
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
        """Write a part of the response; wait while the write buffer is full."""
        connection = self._connection
        if connection.writable is not None and not self.disconnected:
            await connection.writable.wait()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        if not self.started or self.complete:
            raise RuntimeError(f"{message['type']} in the wrong order")
        more = message.get("more_body", False)
        data = self._head + self._framed(message.get("body", b""), more=more)
        self._head = b""
        if data:
            connection.transport.write(data)
        if not more:
            if self._left:
                raise RuntimeError("the response is shorter than its Content-Length")
            self.complete = True
            self.wake()
            if not self.keep_alive:
                connection.close_gracefully()
            connection.response_complete()

    def _begin(self, message: Message) -> None:
        """Keep the head until the first part of the body, so that both go out in one write."""
        if self.started:
            raise RuntimeError("a response begins once")
        self.started = True
        self._expects = False
        status = message["status"]
        lines = [_STATUS_LINES[status], self._connection.date_header()]
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
            raise RuntimeError("a header contains a line break")
        self._head = head

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        if self._is_head:
            return b""
        if self._chunked:
            end = b"" if more else b"0\r\n\r\n"
            return b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        if len(body) > self._left:
            raise RuntimeError("the response is longer than its Content-Length")
        self._left -= len(body)
        return body
