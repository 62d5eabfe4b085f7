"""How long a connection waits for its client, and how it ends so that the client can read what it was told.

Closed with a part of the request unread, a connection is reset by the system, and that takes the answer away with it.
"""

import asyncio
from collections.abc import Callable

from langlauf.server.connection_limit import ConnectionLimit

#: After an answer that ends a connection, what the client still sends is read away, so that the answer is not lost.
_LINGER_SECONDS = 5.0
_LINGER_AT_STOP = 1.0
_LINGER_BYTES = 16 * 1_048_576
#: A client that reads slower than this, over `write_seconds`, does not read.
_LEAST_BYTES_PER_SECOND = 1_024


class TimedProtocol(asyncio.Protocol):
    """A connection with one deadline for what is read, one for what is written, and a gentle end."""

    # There are thousands of them, most of them idle.
    __slots__ = (
        "_bounds",
        "_deadline",
        "_drained",
        "_linger_seconds",
        "_reads",
        "_unwritten",
        "_write_deadline",
        "loop",
        "transport",
        "writable",
    )
    transport: asyncio.Transport

    def __init__(self, crowd: ConnectionLimit) -> None:
        self.loop = asyncio.get_running_loop()
        self._bounds = crowd.bounds
        #: set when the client has read what was written; None while it keeps up
        self.writable: asyncio.Event | None = None
        self._reads = True
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._unwritten = 0
        #: bytes that were read away since nothing more is listened to; None before that
        self._drained: int | None = None
        self._linger_seconds = _LINGER_SECONDS

    # -- a client that does not send -----------------------------------------------------------------------------------

    def _arm(self, seconds: float, late: Callable[[], None]) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def pause_reading(self) -> None:
        """Take nothing more from the client."""
        if self._reads:
            self._reads = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take what the client sends again."""
        if not self._reads:
            self._reads = True
            self.transport.resume_reading()

    # -- closing -------------------------------------------------------------------------------------------------------

    def _end(self, *, unread: bool) -> None:
        """Ends the connection in a way that lets the client read what it was told.

        `unread` says that bytes of a request may be here unread, or on their way.
        """
        if self.transport.is_closing():
            return
        self._disarm()
        self._leaves()
        if not unread or not self.transport.can_write_eof():
            self._close()
            return
        # With bytes of it unread, the system would answer the client with a reset, and that takes our answer away.
        self._drained = 0
        self.resume_reading()
        self.transport.write_eof()
        self._arm(self._linger_seconds, self.transport.abort)

    def _close(self) -> None:
        """Closes once everything is written; for a client that does not read that would be never."""
        self._leaves()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._watch_writing()

    def _leaves(self) -> None:
        """Called when nothing more is done for the client than to let it read to the end."""

    def _linger_briefly(self) -> None:
        """The server stops, or is full: shorten the deadlines of idle connections."""
        self._linger_seconds = _LINGER_AT_STOP
        if self._drained is not None:
            self._arm(_LINGER_AT_STOP, self.transport.abort)

    def _drain(self, count: int) -> None:
        self._drained = (self._drained or 0) + count
        if self._drained > _LINGER_BYTES:
            self.transport.abort()

    # -- a client that does not read -----------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self.writable = self.writable or asyncio.Event()
        self._watch_writing()

    def resume_writing(self) -> None:
        if self.writable is not None:
            self.writable.set()
            self.writable = None
        self._disarm_writing()

    def _watch_writing(self) -> None:
        self._disarm_writing()
        self._unwritten = self.transport.get_write_buffer_size()
        self._write_deadline = self.loop.call_later(self._bounds.write_seconds, self._look_at_writing)

    def _look_at_writing(self) -> None:
        written = self._unwritten - self.transport.get_write_buffer_size()
        if written < _LEAST_BYTES_PER_SECOND * self._bounds.write_seconds:
            self.transport.abort()
        else:
            self._watch_writing()

    def _disarm_writing(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
