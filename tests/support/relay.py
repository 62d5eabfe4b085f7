"""A relay between a program and PostgreSQL that loses answers: what was asked is carried out, and nobody is told.

It reads along in the protocol: it knows which statement is asked, and where an answer ends. Each lost answer costs its
connection, as a network would; the program connects again.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_LENGTH = 4
_READY = b"Z"
_PARSE, _BIND, _SYNC = b"P", b"B", b"S"
_TLS = b"\x04\xd2\x16\x2f"


class Loss(StrEnum):
    """How an answer is lost."""

    #: the database has answered, and the connection is gone before the answer is through
    ANSWERED = "after the answer was made"
    #: the connection is gone while the database is at it
    UNDERWAY = "while it was carried out"
    #: the connection stays and says nothing any more
    SILENT = "in silence"


#: Draws whether, and how, the answer to a statement is lost.
Draw = Callable[[str], Loss | None]


class Relay:
    """Passes on connections to a database; `lost` counts what it did, by the statement's function and the kind."""

    def __init__(self, target: tuple[str, int], draw: Draw) -> None:
        self._target = target
        self._draw = draw
        self.lost: Counter[tuple[str, Loss]] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a program, until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, EOFError, asyncio.IncompleteReadError):
                theirs, ours = await asyncio.open_connection(*self._target)
                try:
                    await _Conversation(reader, writer, theirs, ours, self._draw, self.lost).run()
                finally:
                    await _finish(ours)
        finally:
            self._tasks.discard(task)
            _abort(writer)

    async def end(self) -> None:
        """Ends all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Conversation:
    """Both directions of one connection."""

    def __init__(
        self,
        asks: asyncio.StreamReader,
        tell: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        pass_on: asyncio.StreamWriter,
        draw: Draw,
        lost: Counter[tuple[str, Loss]],
    ) -> None:
        self._asks, self._tell, self._answers, self._pass_on = asks, tell, answers, pass_on
        self._draw = draw
        self._lost = lost
        self._queries: dict[bytes, str] = {}
        self._query = ""
        self._loss: Loss | None = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Ends when one side has, or when an answer was lost."""
        sides = {asyncio.create_task(self._forward()), asyncio.create_task(self._back())}
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({*sides, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*sides, over):
                task.cancel()
            await asyncio.gather(*sides, over, return_exceptions=True)

    async def _forward(self) -> None:
        """What the program asks; the first message has no type, and TLS is refused."""
        while _is_for_tls(first := await _untyped(self._asks)):
            self._tell.write(b"N")
        self._pass_on.write(first)
        while True:
            kind, body = await _message(self._asks)
            self._pass_on.write(kind + body)
            self._notice(kind, body[_LENGTH:])
            if kind == _SYNC:
                await self._pass_on.drain()
                self._decide()

    def _notice(self, kind: bytes, body: bytes) -> None:
        if kind == _PARSE:
            name, query, *_ = body.split(b"\0", 2)
            self._queries[name] = query.decode()
        elif kind == _BIND:
            _, name, *_ = body.split(b"\0", 2)
            self._query = self._queries.get(name, "")

    def _decide(self) -> None:
        query, self._query = self._query, ""
        if self._loss is None and query and (loss := self._draw(query)):
            self._loss = loss
            self._lost[function_of(query), loss] += 1
            if loss is Loss.UNDERWAY:
                self._over.set()

    async def _back(self) -> None:
        """What the database answers, until an answer is lost."""
        while True:
            kind, body = await _message(self._answers)
            if self._loss is None:
                self._tell.write(kind + body)
                await self._tell.drain()
            elif kind == _READY and self._loss is Loss.ANSWERED:
                self._over.set()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The type of a message, and its length with its body."""
    return await reader.readexactly(1), await _untyped(reader)


async def _untyped(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(_LENGTH)
    return head + await reader.readexactly(int.from_bytes(head) - _LENGTH)


def _is_for_tls(message: bytes) -> bool:
    return message[_LENGTH:] == _TLS


def function_of(query: str) -> str:
    """The function that a statement calls: its first word before a bracket."""
    return query.partition("(")[0].split()[-1] if "(" in query else ""


async def _finish(writer: asyncio.StreamWriter) -> None:
    """Lets what was asked arrive before the connection ends."""
    with suppress(OSError):
        await writer.drain()
    writer.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def losing(
    chance: random.Random, share: float, functions: frozenset[str], losses: tuple[Loss, ...], *, most: int
) -> Draw:
    """Loses a share of the answers of some functions, until so many are lost."""
    left = iter(range(most))

    def draw(query: str) -> Loss | None:
        if function_of(query) in functions and chance.random() < share and next(left, None) is not None:
            return chance.choice(losses)
        return None

    return draw


@asynccontextmanager
async def relayed(url: str, address: str, draw: Draw) -> AsyncIterator[tuple[Relay, str]]:
    """A relay on an address, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    relay = Relay((parts.hostname, parts.port), draw)
    server = await asyncio.start_server(relay.take, address, 0)
    port = server.sockets[0].getsockname()[1]
    user = parts.netloc.rpartition("@")[0]
    try:
        yield relay, urlunsplit(parts._replace(netloc=f"{user}@{address}:{port}"))
    finally:
        server.close()
        await relay.end()
