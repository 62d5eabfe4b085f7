"""HTTP/1.1 requests from the bytes of one connection, within limits on the head and on framing.

Reading has stages:

- `IDLE`: no byte of a request has arrived. Left by the first byte, or closed after the keep-alive time; before the
  first request after `head_seconds`.
- `HEAD`: a part of the head has arrived. Left by its end, or refused with 408 after `head_seconds`.
- `BODY`: the request is being handled, its body is incomplete. Left by its end, or refused with 408 after
  `body_seconds`.
- `READ`: the whole request has arrived. Left by the first byte of the next one, or to `IDLE` by the end of its
  response.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from langlauf.auth.caller import ALLOWED_HOSTS
from langlauf.problems import Problem, bad_request
from langlauf.server.asgi import COUNT_FOR_ORG, TRANSPORT
from langlauf.server.connection_limit import ServerLimits
from langlauf.server.deadlines import TimedProtocol

#: Fields that determine how the message itself is parsed.
_FRAMING_FIELDS = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
_ASGI = {"version": "3.0", "spec_version": "2.3"}
#: After an early response, the connection still waits for the rest of a body up to this size.
_SHORT_BODY = 65_536
_LONG_NUMBER = 10
#: What the lines of a head take besides names, values and the URL.
_HEAD_MARGIN = 1_024


class ReadStage(Enum):
    """How much of a request has arrived; see above."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    READ = auto()


class _RequestRefused(Exception):
    """Stops the parser; the problem is stored on the connection."""


class RequestParser(TimedProtocol, ABC):
    """Parses the requests of one connection; a subclass handles them and closes the connection."""

    __slots__ = (
        "_client",
        "_expects",
        "_field_bytes",
        "_framing_bytes",
        "_has_body",
        "_has_end",
        "_head_bytes",
        "_headers",
        "_hosts",
        "_is_short",
        "_parser",
        "_refusal",
        "_server",
        "_stage",
        "_url",
    )

    def __init__(self, limits: ServerLimits) -> None:
        super().__init__(limits)
        self._parser = httptools.HttpRequestParser(self)
        # Bytes after a request with Connection: close do not prevent its response.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int] | None = None
        self._stage = ReadStage.IDLE
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._field_bytes = 0
        #: bytes of chunk framing and trailers since the last byte of a body
        self._framing_bytes = 0
        #: whether the packet being read holds a part of a body, and the end of a request
        self._has_body = False
        self._has_end = False
        self._hosts = 0
        self._expects = False
        #: whether the request announces a short body, or none
        self._is_short = True
        self._refusal: Problem | None = None

    # -- what a subclass does ------------------------------------------------------------------------------------------

    @abstractmethod
    def count_for_org(self, org_id: str) -> None:
        """Count the connection for an org from here on."""

    @abstractmethod
    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and close the connection."""

    @abstractmethod
    def _body_continues(self) -> None:
        """A part of a body arrived, and more is expected."""

    @abstractmethod
    def _head_is_late(self) -> None:
        """The head did not arrive in time."""

    @abstractmethod
    def _body_is_late(self) -> None:
        """The body did not arrive in time."""

    # -- bytes ---------------------------------------------------------------------------------------------------------

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
            if self._head_bytes > self._limits.max_headers + self._limits.max_url + _HEAD_MARGIN:
                self._refuse(self._headers_too_large())
            else:
                self._arm_once(self._limits.head_seconds, self._head_is_late)
        elif self._stage is ReadStage.BODY:
            self._framing_bytes = 0 if self._has_body else self._framing_bytes + len(data)
            if self._framing_bytes > self._limits.max_headers + _HEAD_MARGIN:
                self._refuse(self._headers_too_large())
            else:
                self._body_continues()
                self._arm_once(self._limits.body_seconds, self._body_is_late)

    def _arm_once(self, seconds: float, late: Callable[[], None]) -> None:
        if self._deadline is None:
            self._arm(seconds, late)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # A server may ignore Upgrade, but the parser hands over to another protocol, and would take a body for the
            # next request. So the head is parsed once more, without the Upgrade field.
            head = self._head_without_upgrade()
            self._parser = httptools.HttpRequestParser(self)
            self._parse(head + data[upgrade.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        method = self._parser.get_method()
        version = self._parser.get_http_version().encode()
        options = b",".join(value for name, value in self._headers if name == b"connection").lower().split(b",")
        fields = [field for field in self._headers if field[0] not in (b"connection", b"upgrade", b"http2-settings")]
        if b"close" in (option.strip() for option in options):
            fields.append((b"connection", b"close"))
        lines = [b"%b: %b\r\n" % field for field in fields]
        return b"".join([method, b" ", self._url, b" HTTP/", version, b"\r\n", *lines, b"\r\n"])

    # -- callbacks of the parser ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._stage = ReadStage.HEAD
        self._url = b""
        self._headers = []
        self._head_bytes = self._field_bytes = self._framing_bytes = self._hosts = 0
        self._expects = False
        self._is_short = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self._limits.max_url:
            limit = self._limits.max_url
            self._stop(
                Problem(
                    414,
                    "head_too_large",
                    f"The URL has more than the {limit:,} bytes that this server accepts.",
                    limit_bytes=limit,
                )
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is not ReadStage.HEAD:
            return  # a trailer: no proxy checks it, so it is ignored
        name, value = name.lower(), value.strip(b" \t")  # whitespace around a value is not part of it
        self._headers.append((name, value))
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > self._limits.max_headers or len(self._headers) > self._limits.max_fields:
            self._stop(self._headers_too_large())
        if name in _FRAMING_FIELDS:
            self._read_framing(name, value)

    def _read_framing(self, name: bytes, value: bytes) -> None:
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
                self._stop(bad_request("Transfer-Encoding must be chunked, or left out.", "Transfer-Encoding"))

    @abstractmethod
    def on_headers_complete(self) -> None:
        """Begin the request."""

    @abstractmethod
    def on_body(self, body: bytes) -> None:
        """Hand a part of the body to the request."""

    @abstractmethod
    def on_message_complete(self) -> None:
        """End the body of the request."""

    # -- the head ------------------------------------------------------------------------------------------------------

    def _check_head(self, version: str, *, upgrade: bool) -> None:
        """Refuse what the parser accepts, and HTTP or our limits do not."""
        if upgrade:
            self._stop(bad_request("This server is not a proxy: request a path, such as /health."))
        if version not in ("1.0", "1.1"):
            self._stop(bad_request("This server speaks HTTP/1.1 and HTTP/1.0."))
        if self._hosts > 1 or (version == "1.1" and not self._hosts):
            self._stop(bad_request("An HTTP/1.1 request must have exactly one Host header.", "Host"))
        if version == "1.0":
            self._expects = False  # 100 Continue came with HTTP/1.1

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
            ALLOWED_HOSTS: self._limits.allowed_hosts,
            COUNT_FOR_ORG: self.count_for_org,
        }

    def _headers_too_large(self) -> Problem:
        fields, limit = self._limits.max_fields, self._limits.max_headers
        message = f"The headers have more than {limit:,} bytes, or there are more than {fields} of them."
        return Problem(431, "head_too_large", message, limit_bytes=limit, limit_fields=fields)

    def _stop(self, problem: Problem) -> None:
        """Leave the parser with a problem."""
        self._refusal = problem
        raise _RequestRefused
