"""A client of server-sent events: a strict parser (WHATWG HTML, 9.2.5 and 9.2.6), and streams on a bare socket."""

import asyncio
import codecs
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self

#: Seconds to wait for what will come, on a machine however busy.
PATIENCE = 60.0
_LINE_END = re.compile(r"\r\n|\r|\n")


class ServerEvent(NamedTuple):
    """An event as a browser would dispatch it."""

    kind: str
    data: str
    last_event_id: str


class EventParser:
    """Takes the bytes of a stream in any pieces; what is not UTF-8 raises. Comments are kept for tests to look at."""

    def __init__(self) -> None:
        self.events: list[ServerEvent] = []
        self.comments: list[str] = []
        self.unknown: list[str] = []
        self.retry: int | None = None
        self.last_event_id = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._began = self._after_cr = False
        self._line = ""
        self._id_buffer = self._kind = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are complete with this piece."""
        text = self._decoder.decode(piece)
        if text and not self._began:
            self._began = True
            text = text.removeprefix("\ufeff")
        before = len(self.events)
        if text:
            if self._after_cr:  # the line ended with the CR already
                text = text.removeprefix("\n")
            self._after_cr = text.endswith("\r") if text else False
            *lines, self._line = _LINE_END.split(self._line + text)
            for line in lines:
                self._take(line)
        return self.events[before:]

    def _take(self, line: str) -> None:
        if line == "":
            self._dispatch()
        elif line.startswith(":"):
            self.comments.append(line[1:])
        else:
            name, _, value = line.partition(":")
            self._field(name, value.removeprefix(" "))

    def _field(self, name: str, value: str) -> None:
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            if "\0" not in value:
                self._id_buffer = value
        elif name == "retry":
            if value.isascii() and value.isdigit():
                self.retry = int(value)
        else:
            self.unknown.append(name)

    def _dispatch(self) -> None:
        self.last_event_id = self._id_buffer
        kind, self._kind = self._kind, ""
        data, self._data = self._data, []
        if data:
            self.events.append(ServerEvent(kind or "message", "\n".join(data), self.last_event_id))


class Chunks:
    """Takes chunked transfer coding apart, however the bytes come; anything that is not as it should be raises."""

    def __init__(self) -> None:
        self._held = b""
        #: the last chunk came, so that the stream was ended on purpose
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """The body of the chunks that are complete."""
        self._held += data
        body = b""
        while match := re.match(rb"([0-9a-fA-F]{1,8})\r\n", self._held):
            assert not self.ended, self._held
            size, start = int(match[1], 16), match.end()
            if len(self._held) < start + size + 2:
                return body
            assert self._held[start + size : start + size + 2] == b"\r\n"
            body += self._held[start : start + size]
            self._held = self._held[start + size + 2 :]
            self.ended = size == 0
        assert re.fullmatch(rb"[0-9a-fA-F]{0,8}\r?", self._held), self._held
        return body


class Stream:
    """One request for a stream and what came of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.parser = EventParser()
        self.status = 0
        self.headers: dict[str, str] = {}
        #: the body as it came, without its chunks
        self.body = b""
        self._chunks = Chunks()
        self._given = 0

    @classmethod
    async def open(
        cls,
        port: int,
        job_id: str,
        query: str = "",
        *,
        method: str = "GET",
        buffer: int | None = None,
        path: str | None = None,
        **headers: str,
    ) -> Self:
        """Asks, and reads the head of the answer. `X_Org_Id="a"` sends `X-Org-Id: a`."""
        connection = socket.socket()
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except OSError:
            connection.close()
            raise
        reader, writer = await asyncio.open_connection(sock=connection, limit=buffer or 2**16)
        stream = cls(reader, writer)
        fields = {"Host": f"127.0.0.1:{port}", "Accept": "text/event-stream", **_named(headers)}
        lines = [f"{method} {path or f'/analyze/jobs/{job_id}/events'}{query} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        try:
            await stream._read_head()
        except BaseException:
            stream.cut()
            raise
        return stream

    async def _read_head(self) -> None:
        async with asyncio.timeout(PATIENCE):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def ended(self) -> bool:
        """Whether it was ended on purpose."""
        return self._chunks.ended

    async def piece(self, most: int = 2**16) -> bytes:
        """What comes next of the body, if anything yet. `IncompleteReadError` where the connection ends too soon."""
        async with asyncio.timeout(PATIENCE):
            data = await self._reader.read(most)
        if not data:
            raise asyncio.IncompleteReadError(b"", None)
        body = self._chunks.feed(data)
        self.body += body
        self.parser.feed(body)
        return body

    async def next(self) -> ServerEvent:
        """The next event."""
        while self._given == len(self.parser.events):
            assert not self.ended, "the stream ended"
            await self.piece()
        self._given += 1
        return self.parser.events[self._given - 1]

    async def rest(self) -> list[ServerEvent]:
        """All events up to the clean end."""
        while not self.ended:
            await self.piece()
        events, self._given = self.parser.events[self._given :], len(self.parser.events)
        return events

    def send(self, data: bytes) -> None:
        """More bytes on the same connection."""
        self._writer.write(data)

    def cut(self) -> None:
        """Goes away at once, in the middle of whatever is on its way."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Goes away politely."""
        self._writer.close()


@asynccontextmanager
async def stream_of(port: int, job_id: str, query: str = "", **how: Any) -> AsyncIterator[Stream]:
    """A stream that is left at the end of the block."""
    stream = await Stream.open(port, job_id, query, **how)
    try:
        yield stream
    finally:
        stream.cut()
        await asyncio.sleep(0)  # for the connection to be gone before the loop may be


def port_of(url: str) -> int:
    """The port in an address."""
    return int(url.rpartition(":")[2])


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def feed_of(port: int, query: str = "", **how: Any) -> AsyncIterator[Stream]:
    """The feed of an org, cut at the end."""
    async with stream_of(port, "", query, path="/analyze/events", **how) as stream:
        yield stream
