"""Slow-loris: connections that drip a head, drip a body, or never read, and idle streams, beside an ordinary client.

`SlowClients` is a load that other scenarios can put beside theirs: enter it, and ask it for its figures at the end.
"""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx2

from tests.abuse.flood import read_answer
from tests.abuse.ordinary import Ordinary, slowest
from tests.abuse.streams import IdleStreams, memory_figure
from tests.faults.plan import Plan
from tests.faults.report import Figure, at_least, at_most, measured, never
from tests.support.server import ServerProcess, serving

#: Deadlines of the server under test, so that connections come and go many times in a run.
HEAD, BODY, WRITE = 2.0, 3.0, 2.0
SETTINGS = {
    "LANGLAUF_LIMITS": f"head_seconds={HEAD:g}; body_seconds={BODY:g}; write_seconds={WRITE:g}",
    "LANGLAUF_LEASE_SECONDS": "15",
}
#: A machine with other things to do may be late by so much.
SLACK = 2.0
_FULL_CLIENTS = 200
_FULL_STREAMS = 500
_FULL_SECONDS = 60
_DRIP_SECONDS = 0.25
_HEAD_BYTES = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Drip: " + b"y" * 1_000
_BODY_HEAD = (
    b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
)
_LARGE = 6_000_000
_KINDS = ("head", "body", "reader")


class SlowClients:
    """So many connections that are as slow as they can be; one that is cut off comes back."""

    def __init__(self, url: str, count: int, chance: random.Random) -> None:
        self._url = url
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._count = count
        self._chance = chance
        self._tasks: list[asyncio.Task[None]] = []
        self.ended: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.longest: dict[str, float] = dict.fromkeys(_KINDS, 0.0)

    async def __aenter__(self) -> Self:
        async with httpx2.AsyncClient(base_url=self._url, timeout=60, trust_env=False) as http:
            body = {"analysis": "large", "input": {"size": _LARGE}}
            result_id = (await http.post("/analyze", json=body)).raise_for_status().json()["result_id"]
        self._large_answers = f"GET /analyze/results/{result_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self._tasks = [asyncio.create_task(self._again(_KINDS[n % len(_KINDS)])) for n in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _again(self, kind: str) -> None:
        await asyncio.sleep(self._chance.random())
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self._address, limit=4_096)
            except OSError as error:
                self.wrong.append(f"{kind}: {error!r}")
                await asyncio.sleep(_DRIP_SECONDS)
                continue
            began = time.monotonic()
            try:
                await getattr(self, f"_be_slow_{kind}")(reader, writer)
            except (OSError, EOFError):
                pass  # cut off while it sent
            finally:
                writer.transport.abort()
            self.ended[kind] += 1
            self.longest[kind] = max(self.longest[kind], time.monotonic() - began)

    async def _be_slow_head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._drip("head", _HEAD_BYTES, reader, writer)

    async def _be_slow_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_BODY_HEAD)
        await self._drip("body", b" " * 900, reader, writer)

    async def _be_slow_reader(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Asks for more than the buffers between hold, takes nothing of it, and stays until it must be cut off."""
        writer.write(self._large_answers)
        await asyncio.sleep(2 * WRITE + self._chance.random())

    async def _drip(self, kind: str, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One byte after the other, until the server has had enough."""
        answer = asyncio.ensure_future(read_answer(reader))
        try:
            for byte in data:
                writer.write(bytes([byte]))
                done, _ = await asyncio.wait({answer}, timeout=_DRIP_SECONDS)
                if done:
                    status = answer.result()[0]
                    if status != 408:
                        self.wrong.append(f"{kind}: {status}")
                    return
        finally:
            answer.cancel()
            with suppress(asyncio.CancelledError, OSError, EOFError):
                await answer

    def figures(self) -> list[Figure]:
        """How long each kind was borne with, and whether it was told why."""
        return [
            measured("slow connections", self._count),
            at_least("of them cut off and back again", sum(self.ended.values()), self._count),
            never("answered with anything but 408", len(self.wrong), sum(self.ended.values())),
            at_most("the longest that a head was waited for", self.longest["head"], HEAD + SLACK, " s"),
            at_most("the longest that a body was waited for", self.longest["body"], BODY + SLACK, " s"),
        ]


def descriptors(server: ServerProcess) -> int:
    """How many files and sockets the server has open."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


async def until_back(server: ServerProcess, level: int, seconds: float) -> int:
    """The descriptors above a level, once there are none or the time is over."""
    deadline = time.monotonic() + seconds
    while (more := descriptors(server) - level) > 0 and time.monotonic() < deadline:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.1)
    return max(0, more)


def noise(server: ServerProcess) -> list[str]:
    """Lines of the log that should not be there."""
    return [line for line in server.log if "Traceback" in line or " error " in line or " warning " in line]


async def run(plan: Plan) -> list[Figure]:
    """Slow clients, idle event streams and an ordinary client at the same server."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    count, seconds = plan.times(_FULL_CLIENTS), max(8.0, _FULL_SECONDS * plan.scale)
    with serving(plan.folder / "store.db", settings=SETTINGS) as server:
        async with Ordinary(server.url) as alone:
            await asyncio.sleep(2)
        before = descriptors(server)
        async with IdleStreams(server, plan.times(_FULL_STREAMS)) as streams:
            async with Ordinary(server.url) as ordinary, SlowClients(server.url, count, plan.chance("slow")) as slow:
                for second in range(int(seconds)):
                    await asyncio.sleep(1)
                    plan.watch(second + 1, int(seconds))
            lost = await streams.lost()
        left = await until_back(server, before, 15)
        lines = noise(server)
    return [
        *slow.figures(),
        measured("idle event streams beside them", streams.count),
        memory_figure(streams.bytes_each),
        never("of the streams cut", lost, streams.count),
        *ordinary.figures(least=20, slowest=slowest(plan)),
        measured(
            "the same client alone",
            round(sorted(alone.times)[int(len(alone.times) * 0.99)], 4),
            _ratio(alone, ordinary),
        ),
        never("descriptors that did not come back", left, count + streams.count),
        never("lines of the log that tell of trouble", len(lines), sum(slow.ended.values())),
    ]


def _ratio(alone: Ordinary, beside: Ordinary) -> str:
    one, other = (sorted(client.times)[len(client.times) // 2] for client in (alone, beside))
    return f"{one * 1000:.1f} ms at the median, {other / one:.1f} times that beside them"
