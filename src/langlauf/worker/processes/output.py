"""What a function prints goes to the log, line by line, under the job it belongs to."""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any

from langlauf.domain.redact import clean_text
from langlauf.telemetry import Fact, tell

_READ = 16_384
_LONGEST_LINE = 2_000
_MOST_READS = 256
#: Past that a call is read but not logged any more: a flood must not drown the log or the worker.
_MOST_LINES = 1_000
_MOST_BYTES = 262_144


class Output:
    """Reads one stream of a process without holding up the event loop."""

    def __init__(self, stream: str, owner: Mapping[str, Any]) -> None:
        self.stream = stream
        self._owner = owner
        self._rest = b""
        self._lines = self._bytes = 0
        self._mine, self.other = os.pipe()
        self._handed_over = False
        os.set_blocking(self._mine, False)
        asyncio.get_running_loop().add_reader(self._mine, self.read)

    def hand_over(self) -> None:
        """The process has its end now."""
        self._handed_over = True
        os.close(self.other)

    def begin(self) -> None:
        """A new call has the whole allowance."""
        self._lines = self._bytes = 0

    def read(self) -> bool:
        """Takes what is there now; False where there was nothing."""
        try:
            data = os.read(self._mine, _READ)
        except BlockingIOError:
            return False
        if not data:  # the process is gone
            asyncio.get_running_loop().remove_reader(self._mine)
            return False
        if self._lines <= _MOST_LINES and self._bytes <= _MOST_BYTES:
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._tell(line)
            if len(self._rest) > _LONGEST_LINE:
                self._tell(self._rest)
                self._rest = b""
        return True

    def drain(self) -> None:
        """A call ended: what it printed before is its own, up to the last letter."""
        for _ in range(_MOST_READS):  # a process of the function's own may go on printing for ever
            if not self.read():
                break
        if self._rest:
            self._tell(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Lets go of the stream."""
        self.drain()
        asyncio.get_running_loop().remove_reader(self._mine)
        os.close(self._mine)
        if not self._handed_over:
            os.close(self.other)

    def _tell(self, line: bytes) -> None:
        if self._lines > _MOST_LINES:
            return
        self._lines += 1
        self._bytes += len(line)
        if self._lines > _MOST_LINES or self._bytes > _MOST_BYTES:
            self._lines = _MOST_LINES + 1
            tell(Fact.ANALYSIS_OUTPUT, logging.WARNING, stream=self.stream, cut=True, **self._owner)
            return
        text = clean_text(line[:_LONGEST_LINE].decode(errors="replace"), _LONGEST_LINE)
        if text:
            tell(Fact.ANALYSIS_OUTPUT, stream=self.stream, text=text, **self._owner)
