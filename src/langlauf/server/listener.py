"""Accepts connections while there is room for them; further ones wait in the system's queue and are not reset.

An event loop accepts all that wait before it reads a byte of any, and closes them unread when descriptors run out. Here
a few are accepted in each turn of the loop, and none beyond the limit.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence

from langlauf.server.connection_limit import ConnectionLimit
from langlauf.telemetry.log import LogEvent, log_event

#: So many in each turn, so that what the earlier ones sent is read before many more come.
ACCEPTS_PER_ITERATION = 2
#: For descriptors or memory to come back, where the system has none left.
_PAUSE_SECONDS = 0.5
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketAcceptor:
    """Sockets that listen."""

    def __init__(
        self, sockets: Sequence[socket.socket], protocol: Callable[[], asyncio.Protocol], crowd: ConnectionLimit
    ) -> None:
        self.sockets = tuple(sockets)
        self._protocol = protocol
        self._crowd = crowd
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._listening = False
        self._closed = False
        crowd.changed = self._resume
        self._resume()

    def close(self) -> None:
        """Accept nothing more."""
        self._pause()
        self._closed = True
        for one in self.sockets:
            one.close()

    async def wait_closed(self) -> None:
        """Wait until what was accepted is a connection."""
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
        if not self._crowd.has_room(len(self._arriving)):
            self._pause()  # until a connection is gone
            self._crowd.make_room()
            return
        for _ in range(ACCEPTS_PER_ITERATION):
            if not self._crowd.has_room(len(self._arriving)):
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
        except OSError:  # it was gone before it was here
            accepted.close()
            return
        if self._closed:
            protocol.shutdown()  # type: ignore[attr-defined]  # ours have it
