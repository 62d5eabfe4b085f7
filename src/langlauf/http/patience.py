"""How long a connection waits for its client, and how it ends so that the client can read what it was told.

The server underneath knows neither: it waits for ever for one that does not read, and closes with a part of the request
unread, which takes the answer away with it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from langlauf.http.crowd import Crowd

#: After an answer that ends a connection, what the client still sends is read away, so that the answer is not lost.
_LINGER_SECONDS = 5.0
_LINGER_AT_STOP = 1.0
_LINGER_BYTES = 16 * 1_048_576
#: A client that reads slower than this, over `write_seconds`, does not read.
_LEAST_BYTES_PER_SECOND = 1_024


class Patient(HttpToolsProtocol):
    """uvicorn's protocol with one deadline for what is read, one for what is written, and a gentle end."""

    def __init__(
        self,
        config: Config,
        server_state: Crowd,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = server_state.bounds
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
        self.flow.resume_reading()
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
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
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
