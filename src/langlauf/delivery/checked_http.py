"""HTTP/1.1 to addresses that were checked, and to no others: one request per connection, redirects are not followed."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import httptools
import msgspec

from langlauf.analysis.payload import run_in_thread
from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.ssrf import Address, Network, unwrap_mapped
from langlauf.domain.webhook import WebhookUrl, check_address

# -- connections -------------------------------------------------------------------------------------------------------
# A name is resolved once, and every address it resolves to is checked: one forbidden address refuses them all. The
# connection goes to a checked address, not to the name, so that a second DNS answer cannot redirect it (DNS rebinding);
# the peer address is checked again once connected. The certificate is verified against the name.

#: All addresses are checked, but a connection is attempted to this many at most.
_MOST_TRIED = 4
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class TooManyLookups(OSError):
    """The limit of concurrent DNS lookups is reached; try again later."""


class Resolver:
    """Resolves names with the resolver of the system, a limited number at once.

    A lookup cannot be canceled, so each has a thread of its own: the few threads of the event loop would all be blocked
    by names whose DNS server never answers.
    """

    def __init__(self, most: int) -> None:
        self._slots = threading.BoundedSemaphore(most)

    async def addresses(self, host: str) -> list[Address]:
        """Return the distinct addresses of a name in the order of the system; raises `OSError` if there are none."""
        if not self._slots.acquire(blocking=False):
            raise TooManyLookups("too many DNS lookups are waiting for an answer")
        loop = asyncio.get_running_loop()
        addresses: asyncio.Future[list[Address]] = loop.create_future()

        def settle(set_outcome: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(lambda: None if addresses.done() else set_outcome())

        def look_up() -> None:
            try:
                found = _look_up(host)
            except OSError as error:
                failure = error  # `error` is deleted at the end of the block
                settle(lambda: addresses.set_exception(failure))
            else:
                settle(lambda: addresses.set_result(found))
            finally:
                self._slots.release()

        thread = threading.Thread(target=look_up, name="langlauf-resolver", daemon=True)
        # It returns once the thread runs: on a busy machine not at once. Its slot is freed by the thread alone.
        await asyncio.shield(run_in_thread(thread.start))
        return await addresses


def _look_up(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(unwrap_mapped(ip_address(socket_address[0])) for *_, socket_address in found))


class ConnectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses may be called for an org, and which certificates are trusted."""

    trust: ssl.SSLContext
    #: private ranges that the operator allowed for this org or for all
    allow: tuple[Network, ...] = ()
    #: where this server listens
    own_host: str = ""
    own_port: int = 0

    def check(self, target: WebhookUrl, address: Address) -> None:
        """Raise `WebhookUrlRefused` for an address that must not be called."""
        check_address(target, address, self.allow)
        if target.port == self.own_port and (address.is_loopback or str(address) == self.own_host):
            raise WebhookUrlRefused("the URL is this server's own: give that of another server", "own")


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of this system, and one of the operator if given."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def resolve_checked(target: WebhookUrl, policy: ConnectionPolicy, resolver: Resolver) -> list[Address]:
    """Return all addresses of a target; raises `WebhookUrlRefused` if one of them must not be called."""
    found = [target.address] if target.address is not None else await resolver.addresses(target.host)
    addresses = [unwrap_mapped(address) for address in found]
    for address in addresses:
        policy.check(target, address)
    return addresses


@asynccontextmanager
async def open_checked(
    target: WebhookUrl, addresses: Sequence[Address], policy: ConnectionPolicy, *, until: float, limit: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Provide a connection to one of the checked addresses of a target, aborted at the end.

    `until` is the deadline by the clock of the event loop.
    """
    connection = await _connect_first(addresses[:_MOST_TRIED], target.port, until)
    try:
        policy.check(target, unwrap_mapped(ip_address(connection.getpeername()[0])))
    except BaseException:
        connection.close()
        raise
    secure = target.scheme == "https"
    reader, writer = await asyncio.open_connection(
        sock=connection,
        limit=limit,
        ssl=policy.trust if secure else None,
        server_hostname=target.host if secure else None,
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # a TLS close handshake could be delayed by the receiver


async def _connect_first(addresses: Sequence[Address], port: int, until: float) -> socket.socket:
    """Connect to the first address that can be reached; each gets an equal share of the remaining time."""
    last: OSError = OSError("the host name has no address")
    now = asyncio.get_running_loop().time
    for index, address in enumerate(addresses):
        share = (until - now()) / (len(addresses) - index)
        try:
            return await _connect(address, port, share)
        except OSError as error:  # also a timeout
            last = error
    raise last


async def _connect(address: Address, port: int, seconds: float) -> socket.socket:
    connection = socket.socket(_FAMILIES[address.version], socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


# -- requests and responses --------------------------------------------------------------------------------------------
# The status code decides. The body is only for the log: little of it is read, and only briefly, so that an endless or
# slow response does not occupy a slot.

#: At most this much of a response is read, head included.
MOST_READ = 16_384
_MOST_KEPT = 4_096
_REPLY_SECONDS = 2.0
_FINAL = 200
_SWITCHING = 101


class InvalidResponse(Exception):
    """The response is not valid HTTP."""


class HttpResponse(msgspec.Struct, frozen=True):
    """The response of a receiver, as far as it was read."""

    status_code: int
    #: names in lower case
    headers: dict[str, str]
    body: bytes


async def post(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    target: WebhookUrl,
    headers: Mapping[str, str],
    body: bytes,
    deadline: asyncio.Timeout,
) -> HttpResponse:
    """Post a body and read the response. The deadline applies up to the head; the body has a shorter one."""
    reader, writer = streams
    writer.write(_head(target, {**headers, "content-length": str(len(body)), "connection": "close"}) + body)
    await writer.drain()
    parser = _ResponseParser()
    while parser.status_code is None:
        await _read_more(reader, parser)
    end = asyncio.get_running_loop().time() + _REPLY_SECONDS
    end = min(end, deadline.when() or end)
    deadline.reschedule(None)  # the outcome is known, whatever happens to the body
    with contextlib.suppress(OSError, InvalidResponse):
        async with asyncio.timeout_at(end):
            while not parser.complete and parser.size < MOST_READ:
                await _read_more(reader, parser)
    return HttpResponse(parser.status_code, parser.headers, bytes(parser.body))


def _head(target: WebhookUrl, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", f"host: {target.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("a header contains a character that is not allowed")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _read_more(reader: asyncio.StreamReader, parser: "_ResponseParser") -> None:
    data = await reader.read(MOST_READ - parser.size)
    if not data:
        raise InvalidResponse(
            "the response is incomplete" if parser.size else "the connection was closed without a response"
        )
    parser.feed(data)
    if parser.size >= MOST_READ and parser.status_code is None:
        raise InvalidResponse("the head of the response is too long")


class _ResponseParser:
    """Parses a response; httptools calls the methods that begin with `on`."""

    def __init__(self) -> None:
        self.status_code: int | None = None
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.size = 0
        self.complete = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.status_code, self.complete = _SWITCHING, True
        except httptools.HttpParserError as error:
            self.complete = True
            if self.status_code is None:
                raise InvalidResponse(f"the response is not HTTP: {error}") from None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status_code is None:  # not a trailer
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status_code = self._parser.get_status_code()
        if status_code >= _FINAL:
            self.status_code = status_code
        else:  # an interim response
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        self.body += data[: _MOST_KEPT - len(self.body)]

    def on_message_complete(self) -> None:
        self.complete = self.status_code is not None
