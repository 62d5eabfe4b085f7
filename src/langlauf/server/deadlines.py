"""Read and write deadlines of a connection, and a close that lets the client read the last response.

Closing a socket with unread bytes makes the kernel send a reset, and a reset discards the response.
"""

import asyncio
from collections.abc import Callable

from langlauf.server.connection_limit import ServerLimits

#: After a response that closes the connection, what the client still sends is read and discarded for this long.
_LINGER_SECONDS = 5.0
_LINGER_AT_STOP = 1.0
_LINGER_BYTES = 16 * 1_048_576
#: A client that reads slower than this, over `write_seconds`, counts as not reading.
_LEAST_BYTES_PER_SECOND = 1_024


class TimedProtocol(asyncio.Protocol):
    """A connection with a read deadline, a write deadline and a graceful close."""

    # A server has thousands of them, most of them idle: slots save memory.
    __slots__ = (
        "_deadline",
        "_drained",
        "_limits",
        "_linger_seconds",
        "_reads",
        "_unwritten",
        "_write_deadline",
        "loop",
        "transport",
        "writable",
    )
    transport: asyncio.Transport

    def __init__(self, limits: ServerLimits) -> None:
        self.loop = asyncio.get_running_loop()
        self._limits = limits
        #: set when the write buffer has drained; None while it is not full
        self.writable: asyncio.Event | None = None
        self._reads = True
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._unwritten = 0
        #: bytes discarded since the connection began to close; None before that
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
        """Stop reading from the client."""
        if self._reads:
            self._reads = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if not self._reads:
            self._reads = True
            self.transport.resume_reading()

    # -- closing -------------------------------------------------------------------------------------------------------

    def _end(self, *, unread: bool) -> None:
        """Close the connection so that the client can read the last response.

        `unread` means that bytes of a request may be unread or in flight.
        """
        if self.transport.is_closing():
            return
        self._disarm()
        self._on_closing()
        if not unread or not self.transport.can_write_eof():
            self._close()
            return
        # With bytes unread, the kernel would send a reset, and that would discard the response.
        self._drained = 0
        self.resume_reading()
        self.transport.write_eof()
        self._arm(self._linger_seconds, self.transport.abort)

    def _close(self) -> None:
        """Close once everything is written; the write deadline ends this for a client that does not read."""
        self._on_closing()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._watch_writing()

    def _on_closing(self) -> None:
        """Called when the connection only waits for the client to read the rest."""

    def _shorten_linger(self) -> None:
        """Shorten the linger timeout, because the server stops or is full."""
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
        self._write_deadline = self.loop.call_later(self._limits.write_seconds, self._check_writing)

    def _check_writing(self) -> None:
        written = self._unwritten - self.transport.get_write_buffer_size()
        if written < _LEAST_BYTES_PER_SECOND * self._limits.write_seconds:
            self.transport.abort()
        else:
            self._watch_writing()

    def _disarm_writing(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
