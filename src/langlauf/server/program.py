"""The server: accepts connections up to the limit, serves one application, and shuts down gracefully.

An event loop accepts all pending connections before it reads a byte of any, and closes them unread when descriptors
run out. Here a few are accepted per iteration of the loop, and none beyond the limit: further ones wait in the kernel's
queue and are not reset.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp

from langlauf.server.connection import HttpConnection
from langlauf.server.connection_limit import ConnectionLimit, server_limits_from
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event

_log = logging.getLogger(__name__)
_BACKLOG = 2_048
#: For clients that do not read their response to the end; waiting requests end at once.
_CLOSE_SECONDS = 5
#: A backstop for requests that go on although their client was disconnected.
_CANCEL_SECONDS = _CLOSE_SECONDS + 2
#: For accepted sockets that are not connections yet.
_ARRIVING_SECONDS = 0.05
#: Few, so that earlier connections are read before many more are accepted.
ACCEPTS_PER_ITERATION = 2
#: Pause until descriptors or memory are available again.
_PAUSE_SECONDS = 0.5
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketAcceptor:
    """Accepts connections on listening sockets while the limit allows."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        connection_limit: ConnectionLimit,
    ) -> None:
        self.sockets = tuple(sockets)
        self._protocol = protocol
        self._connection_limit = connection_limit
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._listening = False
        self._closed = False
        connection_limit.changed = self._resume
        self._resume()

    def close(self) -> None:
        """Accept nothing more."""
        self._pause()
        self._closed = True
        for one in self.sockets:
            one.close()

    async def wait_closed(self) -> None:
        """Wait until accepted sockets are connections."""
        await asyncio.gather(*self._arriving)

    def _resume(self) -> None:
        if not self._listening and not self._closed:
            self._listening = True
            for one in self.sockets:
                self._loop.add_reader(one.fileno(), self._accept, one)

    def _pause(self) -> None:
        if self._listening:
            self._listening = False
            for one in self.sockets:
                self._loop.remove_reader(one.fileno())

    def _accept(self, listening: socket.socket) -> None:
        if not self._connection_limit.has_capacity(len(self._arriving)):
            self._pause()  # until a connection has closed
            self._connection_limit.evict_one()
            return
        for _ in range(ACCEPTS_PER_ITERATION):
            if not self._connection_limit.has_capacity(len(self._arriving)):
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log_event(LogEvent.REQUEST_REFUSED, logging.DEBUG, reason=str(error))
                self._pause()
                self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            arriving = self._loop.create_task(self._connect(accepted))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, protocol = await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:  # the client closed it before it was accepted
            accepted.close()
            return
        if self._closed:
            protocol.shutdown()  # type: ignore[attr-defined]  # our protocol has it


class HttpServer:
    """Serves an application. Calls `started` once it listens, and `stopping` before it closes connections."""

    def __init__(
        self,
        app: ASGIApp,
        connection_limit: ConnectionLimit,
        address: tuple[str, int],
        *,
        started: Callable[[str], None],
        stopping: Callable[[], None],
    ) -> None:
        self._app = app
        self.connection_limit = connection_limit
        self._address = address
        self._on_started = started
        self._on_stopping = stopping
        self._stop_requested = asyncio.Event()
        #: set when a connection has closed, or the shutdown no longer waits
        self._changed = asyncio.Event()
        self._stop_now = False

    def stop(self) -> None:
        """Request a graceful stop; a second call closes all connections at once."""
        self._stop_now = self._stop_requested.is_set()
        self._stop_requested.set()
        self._changed.set()

    async def serve(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Serve these sockets, or else the configured address, until a stop is requested."""
        listening = sockets or [_listening_at(*self._address)]
        for one in listening:
            one.setblocking(False)
        acceptor = SocketAcceptor(
            listening, lambda: HttpConnection(self._app, self.connection_limit), self.connection_limit
        )
        host, port = listening[0].getsockname()[:2]
        self._on_started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await self._stop_requested.wait()
        self._on_stopping()
        await self._shut_down(acceptor)

    async def _shut_down(self, acceptor: SocketAcceptor) -> None:
        abort_timer = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._abort_all)
        acceptor.close()
        self.connection_limit.changed = self._changed.set
        for connection in list(self.connection_limit.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await asyncio.sleep(_ARRIVING_SECONDS)
                await self._wait_until_closed()
                await acceptor.wait_closed()
        except TimeoutError:
            _log.error("%d requests did not end in time and were cancelled", len(self.connection_limit.tasks))
            for task in self.connection_limit.tasks:
                task.cancel()
        abort_timer.cancel()
        self._abort_all()

    async def _wait_until_closed(self) -> None:
        """Wait until there is no connection and no request, or until a second stop request."""
        while self.connection_limit.connections and not self._stop_now:
            self._changed.clear()
            await self._changed.wait()
        while self.connection_limit.tasks and not self._stop_now:
            self._changed.clear()
            next(iter(self.connection_limit.tasks)).add_done_callback(lambda _: self._changed.set())
            await self._changed.wait()

    def _abort_all(self) -> None:
        """Abort all connections; their requests get a disconnect and end."""
        for connection in list(self.connection_limit.connections):
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
    any_host: bool = False,
) -> HttpServer:
    """Return a server for one application. With `any_host` it also answers requests with an unknown `Host`."""
    connection_limit = ConnectionLimit(server_limits_from(settings, any_host=any_host))
    return HttpServer(app, connection_limit, (settings.host, settings.port), started=started, stopping=stopping)
