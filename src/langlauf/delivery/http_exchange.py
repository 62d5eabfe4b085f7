"""One request and its answer over HTTP/1.1, on a connection of its own. Redirects are answers like any other.

The head of the answer decides. What follows is only for the log: little of it is read, and not for long, so that an
answer without an end, or one that drips, holds up nobody.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import httptools
import msgspec

from langlauf.domain.webhook import WebhookUrl

#: Of an answer, head and all, no more is read than this.
MOST_READ = 16_384
_MOST_KEPT = 4_096
_REPLY_SECONDS = 2.0
_FINAL = 200
_SWITCHING = 101


class BadAnswer(Exception):
    """What came back is no answer by the rules of HTTP."""


class Answer(msgspec.Struct, frozen=True):
    """What a receiver answered, as far as it was read."""

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
) -> Answer:
    """Sends a body, and reads the answer. The deadline falls on what there is of it, once its head is there."""
    reader, writer = streams
    writer.write(_head(target, {**headers, "content-length": str(len(body)), "connection": "close"}) + body)
    await writer.drain()
    reading = _Reading()
    while reading.status_code is None:
        await _read_on(reader, reading)
    end = asyncio.get_running_loop().time() + _REPLY_SECONDS
    end = min(end, deadline.when() or end)
    deadline.reschedule(None)  # whatever happens now, the receiver has said what it has to say
    with contextlib.suppress(OSError, BadAnswer):
        async with asyncio.timeout_at(end):
            while not reading.complete and reading.size < MOST_READ:
                await _read_on(reader, reading)
    return Answer(reading.status_code, reading.headers, bytes(reading.body))


def _head(target: WebhookUrl, headers: Mapping[str, str]) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", f"host: {target.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("a header has a character that must not be there")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _read_on(reader: asyncio.StreamReader, reading: "_Reading") -> None:
    data = await reader.read(MOST_READ - reading.size)
    if not data:
        raise BadAnswer("the answer ended too early" if reading.size else "the connection was closed without an answer")
    reading.feed(data)
    if reading.size >= MOST_READ and reading.status_code is None:
        raise BadAnswer("the head of the answer is too long")


class _Reading:
    """An answer while it is read; the parser calls what begins with `on`."""

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
                raise BadAnswer(f"the answer is no HTTP: {error}") from None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status_code is None:  # not what follows the body
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status_code = self._parser.get_status_code()
        if status_code >= _FINAL:
            self.status_code = status_code
        else:  # an answer that only says that there will be one
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        self.body += data[: _MOST_KEPT - len(self.body)]

    def on_message_complete(self) -> None:
        self.complete = self.status_code is not None
