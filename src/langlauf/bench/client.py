"""A client of just enough HTTP/1.1 that it costs little beside the server it measures."""

import asyncio
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from langlauf.bench.work import ORG
from langlauf.domain.errors import LanglaufError

_decode = msgspec.json.decode


class Connection:
    """One connection that is kept open; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, org: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nX-Org-Id: {org}\r\nAccept: application/json\r\n"

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connects to the server of a URL, for the org of the benchmark."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer, parts.netloc, ORG)

    async def get(self, target: str) -> Any:
        """The decoded answer to a GET; anything but success is an error."""
        return await self._ask(f"GET {target} {self._head}\r\n".encode())

    async def post(self, target: str, body: bytes) -> Any:
        """The decoded answer to a POST of JSON."""
        head = f"POST {target} {self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._ask(head.encode() + body)

    async def _ask(self, request: bytes) -> Any:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"\r\ncontent-length:")
        body = await self._reader.readexactly(int(rest.partition(b"\r\n")[0])) if found else b""
        if head[9:10] != b"2":
            raise LanglaufError(f"the server answered {head[9:12].decode()}: {body[:500].decode(errors='replace')}")
        return _decode(body)

    async def close(self) -> None:
        """Ends the connection."""
        self._writer.close()
        await self._writer.wait_closed()
