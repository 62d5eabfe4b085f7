"""A relay in front of PostgreSQL that behaves like a pooler: it reports another backend pid than the server."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_KEY, _READY = b"K", b"Z"
_NOBODY = 4_000_000


@asynccontextmanager
async def pooler_before(url: str) -> AsyncIterator[str]:
    """Return the URL of the same database through a relay, without TLS, as the relay reads what it forwards."""
    parts = urlsplit(url)

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(parts.hostname, parts.port)
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass_on(client, to_server))
            both.create_task(_pass_on(server, to_client, greeting=True))

    relay = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = relay.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
    finally:
        relay.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, greeting: bool = False) -> None:
    try:
        while greeting:
            kind, size = struct.unpack("!cI", await source.readexactly(5))
            body = await source.readexactly(size - 4)
            if kind == _KEY:
                body = struct.pack("!I", _NOBODY) + body[4:]
            target.write(struct.pack("!cI", kind, size) + body)
            greeting = kind != _READY
        while chunk := await source.read(65_536):
            target.write(chunk)
            await target.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # one side closed, so the other is closed too
    finally:
        target.close()
