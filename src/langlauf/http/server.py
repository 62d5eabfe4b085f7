"""The server process: uvicorn, told early when it stops, so that nobody who waits holds it up."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from langlauf.http.connection import Connection
from langlauf.http.crowd import Bounds, Crowd, bounds_from
from langlauf.http.listener import Listener
from langlauf.settings import Settings

#: Above what a proxy before it keeps, and above the longest advice of Retry-After.
_KEEP_ALIVE_SECONDS = 75
#: Whoever waits is let go at once; this is for clients that do not read.
_CLOSE_SECONDS = 5
#: A backstop for requests that go on although their client was cut off.
_CANCEL_SECONDS = _CLOSE_SECONDS + 2


class Server(uvicorn.Server):
    """Calls `started` once it listens, and `stopping` before it closes connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        bounds: Bounds,
        *,
        started: Callable[[str], None],
        stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.server_state: Crowd = Crowd(bounds)
        self._tell_started = started
        self._tell_stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the program: it also stops its workers, after this server and before it ends."""
        yield

    def stop(self) -> None:
        """Asks the server to stop; asked again, it does not wait for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with a listener of our own; the sockets stay the caller's to make."""
        await self.lifespan.startup()
        listening = sockets or [_listening_at(self.config.host, self.config.port, self.config.backlog)]
        for one in listening:
            one.setblocking(False)

        def make_connection() -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state)

        self.servers = [Listener(listening, make_connection, self.server_state)]  # type: ignore[list-item]  # as one
        self.started = True
        host, port = listening[0].getsockname()[:2]
        self._tell_started(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._tell_stopping()
        cut_off = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._abort_all)
        await super().shutdown(sockets)
        cut_off.cancel()
        self._abort_all()

    def _abort_all(self) -> None:
        """Cuts off clients that do not read to the end; what answers them hears that they are gone, and ends."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _listening_at(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def make_server(
    app: ASGIApp,
    settings: Settings,
    *,
    started: Callable[[str], None],
    stopping: Callable[[], None],
    any_name: bool = False,
) -> Server:
    """A server for one application. With `any_name` it is also open to whoever calls it by a name it does not know."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="off",  # the program opens the application around the server
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # links come from the public address in the settings, never from what a caller sends
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_CANCEL_SECONDS,
    )
    return Server(config, bounds_from(settings, any_name=any_name), started=started, stopping=stopping)
