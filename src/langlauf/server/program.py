"""The server process: told early when it stops, so that waiting clients do not hold it up."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp

from langlauf.server.connection import HttpConnection
from langlauf.server.connection_limit import ConnectionLimit, server_limits_from
from langlauf.server.listener import SocketAcceptor
from langlauf.settings import Settings

_log = logging.getLogger(__name__)
_BACKLOG = 2_048
#: Whoever waits is let go at once; this is for clients that do not read.
_CLOSE_SECONDS = 5
#: A backstop for requests that go on although their client was cut off.
_CANCEL_SECONDS = _CLOSE_SECONDS + 2
#: For what was accepted and is not a connection yet.
_ARRIVING_SECONDS = 0.05


class HttpServer:
    """Serves an application. Calls `started` once it listens, and `stopping` before it closes connections."""

    def __init__(
        self,
        app: ASGIApp,
        crowd: ConnectionLimit,
        address: tuple[str, int],
        *,
        started: Callable[[str], None],
        stopping: Callable[[], None],
    ) -> None:
        self._app = app
        self.crowd = crowd
        self._address = address
        self._tell_started = started
        self._tell_stopping = stopping
        self._asked_to_stop = asyncio.Event()
        #: set when a connection has gone, or the stop no longer waits for connections
        self._changed = asyncio.Event()
        self._hurried = False

    def stop(self) -> None:
        """Asks the server to stop; asked again, it does not wait for anybody."""
        self._hurried = self._asked_to_stop.is_set()
        self._asked_to_stop.set()
        self._changed.set()

    async def serve(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Serve until the server is asked to stop: what comes to these sockets, or else to its own address."""
        listening = sockets or [_listening_at(*self._address)]
        for one in listening:
            one.setblocking(False)
        listener = SocketAcceptor(listening, lambda: HttpConnection(self._app, self.crowd), self.crowd)
        host, port = listening[0].getsockname()[:2]
        self._tell_started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await self._asked_to_stop.wait()
        self._tell_stopping()
        await self._shut_down(listener)

    async def _shut_down(self, listener: SocketAcceptor) -> None:
        cut_off = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._abort_all)
        listener.close()
        self.crowd.changed = self._changed.set
        for connection in list(self.crowd.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await asyncio.sleep(_ARRIVING_SECONDS)
                await self._all_gone()
                await listener.wait_closed()
        except TimeoutError:
            _log.error("%d requests did not end in time, and were cancelled", len(self.crowd.tasks))
            for task in self.crowd.tasks:
                task.cancel()
        cut_off.cancel()
        self._abort_all()

    async def _all_gone(self) -> None:
        """Wait until there is no connection and no request, unless there is a hurry."""
        while self.crowd.connections and not self._hurried:
            self._changed.clear()
            await self._changed.wait()
        while self.crowd.tasks and not self._hurried:
            self._changed.clear()
            next(iter(self.crowd.tasks)).add_done_callback(lambda _: self._changed.set())
            await self._changed.wait()

    def _abort_all(self) -> None:
        """Cuts off clients that do not read to the end; what answers them hears that they are gone, and ends."""
        for connection in list(self.crowd.connections):
            connection.transport.abort()


def _listening_at(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def make_server(
    app: ASGIApp,
    settings: Settings,
    *,
    started: Callable[[str], None],
    stopping: Callable[[], None],
    any_name: bool = False,
) -> HttpServer:
    """A server for one application. With `any_name` it is also open to whoever calls it by a name it does not know."""
    crowd = ConnectionLimit(server_limits_from(settings, any_name=any_name))
    return HttpServer(app, crowd, (settings.host, settings.port), started=started, stopping=stopping)
