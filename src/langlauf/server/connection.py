"""One connection: what its client may send, how long it may take, and what it hears when there is no request yet.

A client that drips, floods or never reads is cut off, and hears why as a problem like any other. What is read has
stages:

- `IDLE`: no byte of a request is here. Left by the first byte, or closed after the keep-alive time; before the first
  request after `head_seconds`.
- `HEAD`: some of a head is here. Left by its end, or refused with 408 after `head_seconds`.
- `BODY`: the request is under way, its body is not complete. Left by its end, or refused with 408 after `body_seconds`.
- `READ`: all of the request is here. Left by the first byte of the next one, or to `IDLE` by the end of its answer.
"""

import asyncio
import logging
from collections.abc import Iterable
from enum import Enum, auto
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp, Scope

from langlauf.auth.allowed_hosts import ALLOWED_HOSTS
from langlauf.auth.caller import request_id_from
from langlauf.auth.client_address import network_of
from langlauf.problems import Problem, bad_request, problem_response
from langlauf.server.connection_limit import ConnectionLimit
from langlauf.server.deadlines import TimedProtocol
from langlauf.server.exchange import STATUS_LINES, RequestCycle
from langlauf.server.mounting import root_url
from langlauf.server.transport import HOLD, TRANSPORT
from langlauf.telemetry.log import LogEvent, log_event

#: What operators ask is answered as long as a connection can be opened at all.
_ALWAYS_ANSWERED = ("/health", "/ready")
#: Fields that say how the message itself is to be read.
_HEEDED = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_OVER_LIMIT_HEAD_SECONDS = 2.0
#: What a new client has sent may be here unread: so long it does not give way to others.
_ARRIVING_SECONDS = 0.05
_MOST_PIPELINED = 16
#: The rest of a body up to this is waited for although the request has its answer.
_SHORT_BODY = 65_536
_LONG_NUMBER = 10
#: What the lines of a head take beside names, values and the address.
_HEAD_MARGIN = 1_024


class ReadStage(Enum):
    """How much of a request is here; see above."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    READ = auto()


class _RequestRefused(Exception):
    """Stops the parser; the problem is with the connection."""


class HttpConnection(TimedProtocol):
    """HTTP/1.1 over one connection, with bounds, deadlines for what a client sends, and answers in our own shape."""

    __slots__ = (
        "_answering",
        "_app",
        "_client",
        "_crowd",
        "_exchange",
        "_expects",
        "_field_bytes",
        "_framing_bytes",
        "_has_body",
        "_has_end",
        "_head_bytes",
        "_headers",
        "_hosts",
        "_is_short",
        "_keep_alive",
        "_over_limit",
        "_parser",
        "_pipeline",
        "_refusal",
        "_rest_timer",
        "_rested_at",
        "_server",
        "_stage",
        "_url",
        "holder",
    )

    def __init__(self, app: ASGIApp, crowd: ConnectionLimit) -> None:
        super().__init__(crowd)
        self._app = app
        self._crowd = crowd
        self._parser = httptools.HttpRequestParser(self)
        # What follows a request that ends its connection is no reason not to answer it.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        #: whom it counts for: an org, or an address before that is known
        self.holder = ""
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int] | None = None
        self._stage = ReadStage.IDLE
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._field_bytes = 0
        #: bytes of chunks and of what follows them since the last that belonged to a body
        self._framing_bytes = 0
        #: whether the packet that is read has a part of a body, and the end of a request
        self._has_body = False
        self._has_end = False
        self._hosts = 0
        self._expects = False
        #: whether the request says that it has a short body, or none
        self._is_short = True
        #: the last request that was read, the one that is being answered, and those that wait for that
        self._exchange: RequestCycle | None = None
        self._answering: RequestCycle | None = None
        self._pipeline: list[RequestCycle] = []
        self._keep_alive = True
        self._rested_at = 0.0
        self._rest_timer: asyncio.TimerHandle | None = None
        self._over_limit = False
        self._refusal: Problem | None = None

    # -- its life ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one that writes
        self.transport = transport
        self._crowd.connections.add(self)
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._server = (str(here[0]), int(here[1])) if isinstance(here, tuple) else None
        self.holder = self._address_holder(())
        self._over_limit = not self._crowd.joined(self)
        if self._over_limit:
            self._linger_briefly()
        self._arm(_ARRIVING_SECONDS, self._is_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.connections.discard(self)
        self._disarm()
        self.resume_writing()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        self._crowd.left(self)
        self._pipeline.clear()
        for exchange in (self._exchange, self._answering):
            if exchange is not None:
                exchange.let_go()
        if exc is None:
            self.transport.close()

    def give_way(self) -> None:
        """Closes, because another connection needs the room."""
        self._linger_briefly()
        if self._stage is ReadStage.BODY:
            self._refuse(_overloaded())
        elif self._answering is not None:  # its client does not read
            self._leaves()
            self.transport.abort()
        else:
            self._disarm()
            if self._stage is ReadStage.HEAD or self._over_limit:
                self._write_problem(_overloaded())
            self._close()

    def hold(self, org_id: str) -> None:
        """Count for an org; raise the problem where the server is full and the org has its part already."""
        self._crowd.hold(self, f"org {org_id}")
        if self._over_limit and not self._crowd.admits(self):
            raise _overloaded()

    def _address_holder(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Whom it counts for as long as no more than the address of its client is known."""
        address = self._bounds.proxies.client_of(self._client[0] if self._client else None, headers)
        return "address" if address is None else f"address {network_of(address)}"

    def shutdown(self) -> None:
        """The server stops: what is under way is answered, what has not been sent yet is not waited for."""
        self._pipeline.clear()
        self._linger_briefly()
        if self._drained is not None:
            return
        if self._stage is ReadStage.BODY or self._stage is ReadStage.HEAD:
            self._refuse(_stopping())
        elif self._answering is None:
            self.hang_up()
        else:
            self._answering.keep_alive = False

    # -- reading -------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._drained is not None:
            self._drain(len(data))
            return
        self._has_body = self._has_end = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or bad_request("This is not an HTTP/1.1 request."))
            return
        if self._stage is ReadStage.HEAD:
            self._head_bytes += 0 if self._has_end else len(data)
            if self._head_bytes > self._bounds.max_headers + self._bounds.max_url + _HEAD_MARGIN:
                self._refuse(self._headers_too_large())
            elif self._deadline is None:
                self._arm(self._bounds.head_seconds, self._head_is_late)
        elif self._stage is ReadStage.BODY:
            self._framing_bytes = 0 if self._has_body else self._framing_bytes + len(data)
            if self._framing_bytes > self._bounds.max_headers + _HEAD_MARGIN:
                self._refuse(self._headers_too_large())
            else:
                self._crowd.stalls(self)
                if self._deadline is None:
                    self._arm(self._bounds.body_seconds, self._body_is_late)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # Nobody is obliged to change the protocol, but the parser takes what follows for another one, and a body
            # for the next request. So the head is read once more, without the wish.
            head = self._head_without_upgrade()
            self._parser = httptools.HttpRequestParser(self)
            self._parse(head + data[upgrade.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        method = self._parser.get_method()
        version = self._parser.get_http_version().encode()
        wishes = b",".join(value for name, value in self._headers if name == b"connection").lower().split(b",")
        fields = [field for field in self._headers if field[0] not in (b"connection", b"upgrade", b"http2-settings")]
        if b"close" in (wish.strip() for wish in wishes):
            fields.append((b"connection", b"close"))
        lines = [b"%b: %b\r\n" % field for field in fields]
        return b"".join([method, b" ", self._url, b" HTTP/", version, b"\r\n", *lines, b"\r\n"])

    def on_message_begin(self) -> None:
        self._stage = ReadStage.HEAD
        self._url = b""
        self._headers = []
        self._head_bytes = self._field_bytes = self._framing_bytes = self._hosts = 0
        self._expects = False
        self._is_short = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self._bounds.max_url:
            limit = self._bounds.max_url
            self._stop(Problem(414, "head_too_large", f"The address has more than {limit:,} bytes.", limit_bytes=limit))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is not ReadStage.HEAD:
            return  # behind the body, where nobody between looks for it: it says nothing about the request
        name, value = name.lower(), value.strip(b" \t")  # blanks around a value are no part of it
        self._headers.append((name, value))
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > self._bounds.max_headers or len(self._headers) > self._bounds.max_fields:
            self._stop(self._headers_too_large())
        if name in _HEEDED:
            self._heed(name, value)

    def _heed(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"
        elif name == b"content-length":
            short = value.isdigit() and len(value) < _LONG_NUMBER and int(value) <= _SHORT_BODY
            self._is_short = self._is_short and short
        else:
            self._is_short = False
            if value.lower() != b"chunked":
                self._stop(bad_request("The only Transfer-Encoding here is chunked.", "Transfer-Encoding"))

    def on_headers_complete(self) -> None:
        upgrade, method = self._parser.should_upgrade(), self._parser.get_method()
        if upgrade and method != b"CONNECT":
            return
        self._disarm()
        self._crowd.asked(self)
        self._over_limit = self._over_limit and not self._crowd.settles()
        version = self._parser.get_http_version()
        self._check_head(version, upgrade=upgrade)
        if self._bounds.proxies.networks:
            self._crowd.hold(self, self._address_holder(self._headers))
        # Answered before its body is complete, a request ends its connection, unless its body is short.
        self._keep_alive = version != "1.0" and self._parser.should_keep_alive() and not self._over_limit
        scope = self._scope(method.decode("ascii"), version)
        exchange = RequestCycle(self, scope, keep_alive=self._keep_alive and self._is_short, expects=self._expects)
        self._exchange = exchange
        self._stage = ReadStage.BODY
        if self._answering is None:
            self._answer(exchange)
        else:
            self.pause_reading()
            self._pipeline.append(exchange)

    def _scope(self, method: str, version: str) -> Scope:
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            "server": self._server,
            TRANSPORT: self.transport,
            ALLOWED_HOSTS: self._bounds.names,
            HOLD: self.hold,
        }

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        if self._exchange is not None and not self._exchange.complete and self._exchange.take(body):
            self.pause_reading()

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or self._parser.should_upgrade():
            return
        self._has_end = True
        self._disarm()
        self._crowd.stalled.discard(self)
        self._stage = ReadStage.READ
        if exchange.complete:
            self._rest()
            return
        self._headers = []  # they are the application's from here on, which may let go of them
        exchange.end_of_body()
        if not exchange.started:
            exchange.keep_alive = self._keep_alive

    def _rest(self) -> None:
        """Everything that was asked is answered."""
        self._stage = ReadStage.IDLE
        self._crowd.silent(self, late=False)
        self._rested_at = self.loop.time()
        if self._rest_timer is None:
            self._rest_timer = self.loop.call_later(self._bounds.keep_alive_seconds, self._has_rested)

    def _has_rested(self) -> None:
        """Close where nothing was asked for so long. Requests do not arm the timer anew: it looks when it is over."""
        self._rest_timer = None
        if self._stage is not ReadStage.IDLE or self._drained is not None:
            return  # the end of what is under way arms it
        left = self._rested_at + self._bounds.keep_alive_seconds - self.loop.time()
        if left > 0:
            self._rest_timer = self.loop.call_later(left, self._has_rested)
        else:
            self.hang_up()

    def _check_head(self, version: str, *, upgrade: bool) -> None:
        """What the parser lets pass, and HTTP or our bounds do not."""
        if upgrade:
            self._stop(bad_request("This server is no proxy."))
        if version not in ("1.0", "1.1"):
            self._stop(bad_request("This server speaks HTTP/1.1 and HTTP/1.0."))
        if self._hosts > 1 or (version == "1.1" and not self._hosts):
            self._stop(bad_request("An HTTP/1.1 request has one Host.", "Host"))
        if version == "1.0":
            self._expects = False  # a client of that time knows one answer to a request
        if len(self._pipeline) >= _MOST_PIPELINED:
            self._stop(bad_request("Too many requests were sent without waiting for an answer."))

    def _headers_too_large(self) -> Problem:
        fields, limit = self._bounds.max_fields, self._bounds.max_headers
        message = f"The headers have more than {limit:,} bytes, or more than {fields} fields."
        return Problem(431, "head_too_large", message, limit_bytes=limit, limit_fields=fields)

    def _stop(self, problem: Problem) -> None:
        """Leaves the parser with a problem."""
        self._refusal = problem
        raise _RequestRefused

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _is_silent(self) -> None:
        """An ordinary client has sent its request by now."""
        self._crowd.silent(self, late=self._over_limit)
        limit = _OVER_LIMIT_HEAD_SECONDS if self._over_limit else self._bounds.head_seconds
        self._arm(max(0.0, limit - _ARRIVING_SECONDS), self._head_is_late)

    def _head_is_late(self) -> None:
        if self._stage is ReadStage.IDLE:  # not one byte: there is nothing to answer
            self.hang_up()
        else:
            seconds = self._bounds.head_seconds
            self._refuse(Problem(408, "request_timeout", f"The head of the request took longer than {seconds:g} s."))

    def _body_is_late(self) -> None:
        seconds = self._bounds.body_seconds
        if self._exchange is not None and self._exchange.complete:  # it has its answer already
            self.hang_up()
            return
        self._refuse(Problem(408, "request_timeout", f"The body of the request took longer than {seconds:g} s."))

    # -- answering -----------------------------------------------------------------------------------------------------

    def _answer(self, exchange: RequestCycle) -> None:
        self._answering = exchange
        if exchange.scope["path"] in _ALWAYS_ANSWERED:
            self._begin(exchange)
        else:
            self._crowd.turnstile.enter(self.holder, lambda: self._begin(exchange))

    def _begin(self, exchange: RequestCycle) -> None:
        if not exchange.disconnected:
            task = self.loop.create_task(exchange.run(self._app))
            self._crowd.tasks.add(task)
            task.add_done_callback(self._crowd.tasks.discard)

    def answered(self) -> None:
        """All of an answer was written: the next request is answered, or there is none."""
        self._answering = None
        if self._drained is not None or self.transport.is_closing():
            return
        self.resume_reading()
        if self._pipeline:
            self._answer(self._pipeline.pop(0))
        elif self._stage is ReadStage.READ:
            self._rest()

    def date_line(self) -> bytes:
        """The field that says when an answer was made."""
        return self._crowd.date_line()

    def _refuse(self, problem: Problem) -> None:
        """Answers without the application and ends the connection; what was asked before is still answered."""
        self._disarm()
        log_event(LogEvent.REQUEST_REFUSED, logging.DEBUG, status=problem.status, reason=problem.message)
        self._pipeline.clear()
        answering = self._answering
        if answering is not None and (answering is not self._exchange or self._stage is not ReadStage.BODY):
            answering.keep_alive = False
            self._drained = 0
            return
        if answering is not None:
            started = answering.started
            answering.let_go()
            if started:  # half an answer is not followed by another
                self._close()
                return
        self._stage = ReadStage.HEAD
        self._write_problem(problem)
        self.hang_up()

    def _write_problem(self, problem: Problem) -> None:
        shown = next((value for name, value in self._headers if name == b"x-request-id"), b"")
        request_id = request_id_from(shown.decode("latin-1"))
        response = problem_response(problem, request_id, root_url({}, self._bounds.public_url))
        headers = [
            *response.raw_headers,
            (b"x-request-id", request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        lines = [b"%b: %b\r\n" % header for header in headers]
        head = [STATUS_LINES[problem.status], self.date_line(), *lines, b"\r\n"]
        self.transport.write(b"".join([*head, bytes(response.body)]))

    # -- closing -------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._crowd.stalls(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stage is not ReadStage.BODY:
            self._crowd.stalled.discard(self)

    def _leaves(self) -> None:
        self._crowd.leaves(self)

    def hang_up(self) -> None:
        """End the connection gently: nothing more is answered."""
        self._end(unread=self._stage not in (ReadStage.IDLE, ReadStage.READ))


def _overloaded() -> Problem:
    return Problem(
        503,
        "unavailable",
        "The server has as many connections as it can; nothing was accepted. Try again.",
        headers={"Retry-After": "5"},
    )


def _stopping() -> Problem:
    return Problem(
        503, "unavailable", "The server is about to stop; nothing was accepted.", headers={"Retry-After": "5"}
    )
