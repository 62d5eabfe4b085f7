"""The server process: uvicorn, told early when it stops, so that nobody who waits holds it up."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from langlauf.http.transport import TRANSPORT
from langlauf.settings import Settings

#: Above what a proxy before it keeps, and above the longest advice of Retry-After.
_KEEP_ALIVE_SECONDS = 75
#: A backstop: whoever waits is let go at once, this is for clients that do not read.
_CLOSE_SECONDS = 5


class Connection(HttpToolsProtocol):
    """One connection. A request can cut it, which ASGI has no word for, and each is told when it is lost."""

    #: requests without an answer; uvicorn itself knows the newest alone
    _open_cycles: tuple[RequestResponseCycle, ...] = ()

    def on_message_begin(self) -> None:
        """The request knows its connection."""
        super().on_message_begin()
        scope: Scope = self.scope  # type: ignore[assignment]  # a scope may hold more than the standard names
        scope[TRANSPORT] = self.transport

    def on_headers_complete(self) -> None:
        """A request behind another one does not hide it."""
        super().on_headers_complete()
        self._open_cycles = (*(one for one in self._open_cycles if not one.response_complete), self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever sends or waits to be told that nobody is there is told."""
        super().connection_lost(exc)
        for cycle in self._open_cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()


class Server(uvicorn.Server):
    """Calls `started` once it listens, and `stopping` before it closes connections."""

    def __init__(self, config: uvicorn.Config, *, started: Callable[[str], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
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
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._tell_started(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._tell_stopping()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._cut_all)
        await super().shutdown(sockets)
        self._cut_all()

    def _cut_all(self) -> None:
        """Ends the connections of clients that neither ask nor read to the end."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def make_server(
    app: ASGIApp, settings: Settings, *, started: Callable[[str], None], stopping: Callable[[], None]
) -> Server:
    """A server for one application."""
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
        timeout_graceful_shutdown=_CLOSE_SECONDS + 1,  # connections are cut before: no request has to be canceled
    )
    return Server(config, started=started, stopping=stopping)
