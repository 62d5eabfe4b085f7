"""`python -m tests.abuse.flood URL CONNECTIONS SECONDS FILE`: submits as fast as answers come, in a process of its own.

What was answered is left in the file as one JSON object. A process of its own, so that whoever measures beside it
measures the server and not this.
"""

import asyncio
import json
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

_PAUSE_AFTER_REFUSAL = 0.05


class Flood:
    """Connections that submit without a pause."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._until = time.monotonic() + seconds
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        self.without_retry_after = 0
        self.longest = 0.0

    async def run(self, connections: int) -> dict[str, Any]:
        """Submits until the time is over."""
        await asyncio.gather(*(self._submit() for _ in range(connections)))
        return {
            "statuses": self.statuses,
            "accepted": self.accepted,
            "without_retry_after": self.without_retry_after,
            "longest": self.longest,
        }

    async def _submit(self) -> None:
        while time.monotonic() < self._until:
            try:
                reader, writer = await asyncio.open_connection(*self._address)
            except OSError:
                self.statuses["no connection"] += 1
                await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
                continue
            try:
                while time.monotonic() < self._until:
                    await self._ask(reader, writer)
            except (OSError, EOFError):
                self.statuses["cut off"] += 1
            finally:
                writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b'{"analysis": "echo", "input": {"value": "%b"}}' % uuid.uuid4().hex.encode()
        head = (
            b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPrefer: respond-async\r\n"
        )
        began = time.monotonic()
        writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        status, fields, answer = await read_answer(reader)
        self.longest = max(self.longest, time.monotonic() - began)
        self.statuses[str(status)] += 1
        if status == 202:
            self.accepted.append(msgspec.json.decode(answer)["job"]["job_id"])
        elif b"retry-after:" not in fields:
            self.without_retry_after += 1
        if b"connection: close" in fields:
            raise EOFError
        if status != 202:
            await asyncio.sleep(_PAUSE_AFTER_REFUSAL)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Status, head and body of the next response."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = head.lower()
    _, _, after = fields.partition(b"content-length:")
    length = int(after.split(b"\r\n", 1)[0]) if after else 0
    return int(head.split(b" ", 2)[1]), fields, await reader.readexactly(length)


async def flood(url: str, connections: int, seconds: float, file: Path) -> dict[str, Any]:
    """Runs a flood in a process of its own and returns what it was answered."""
    words = [sys.executable, "-m", "tests.abuse.flood", url, str(connections), str(seconds), str(file)]
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0, "the flood failed"
    found: dict[str, Any] = json.loads(await asyncio.to_thread(file.read_text, "utf-8"))
    return found


if __name__ == "__main__":
    _url, _connections, _seconds, _file = sys.argv[1:]
    _found = uvloop.run(Flood(_url, float(_seconds)).run(int(_connections)))
    Path(_file).write_text(json.dumps(_found), "utf-8")
