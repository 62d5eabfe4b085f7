"""One HTTP/1.1 request and its response on a connection of its own. Redirects are not followed.

The status code decides. The body is only for the log: little of it is read, and only briefly, so that an endless or
slow response does not occupy a slot.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import httptools
import msgspec

from langlauf.domain.webhook import WebhookUrl

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
