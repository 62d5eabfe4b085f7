"""What a function prints goes to the log, line by line, under the job it belongs to."""

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from typing import Any

from langlauf.domain.redact import clean_text
from langlauf.telemetry.log import LogEvent, log_event

_READ = 16_384
_LONGEST_LINE = 2_000
#: So much of a line is looked at for secrets before it is cut; what follows in that line is not told.
_LONGEST_LOOKED_AT = 32_768
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?!.*-----END)")
#: A line between the first and the last of a private key.
_KEY_GOES_ON = re.compile(
    r"\s*(?:[A-Za-z0-9+/=]{0,80}|[A-Z][A-Za-z-]{1,20}: .{1,80})\s*(?:-----END [A-Z0-9 ]{1,60}-----.*)?"
)
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
        self._in_long_line = self._in_key = False
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
                self._in_long_line = False
            if len(self._rest) > _LONGEST_LOOKED_AT:
                self._tell(self._rest)
                self._rest, self._in_long_line = b"", True
        return True

    def drain(self) -> None:
        """A call ended: what it printed before is its own, up to the last letter."""
        for _ in range(_MOST_READS):  # a process of the function's own may go on printing for ever
            if not self.read():
                break
        if self._rest:
            self._tell(self._rest)
            self._rest = b""
        self._in_long_line = self._in_key = False

    def close(self) -> None:
        """Lets go of the stream."""
        self.drain()
        asyncio.get_running_loop().remove_reader(self._mine)
        os.close(self._mine)
        if not self._handed_over:
            os.close(self.other)

    def _tell(self, line: bytes) -> None:
        if self._lines > _MOST_LINES or self._in_long_line:
            return
        self._lines += 1
        self._bytes += len(line)
        if self._lines > _MOST_LINES or self._bytes > _MOST_BYTES:
            self._lines = _MOST_LINES + 1
            log_event(LogEvent.ANALYSIS_OUTPUT, logging.WARNING, stream=self.stream, cut=True, **self._owner)
            return
        text = line[:_LONGEST_LOOKED_AT].decode(errors="replace")
        if self._in_key and _KEY_GOES_ON.fullmatch(text):
            self._in_key = "-----END" not in text
            return
        self._in_key = _KEY_BEGINS.search(text) is not None
        text = clean_text(text, _LONGEST_LINE)
        if text:
            log_event(LogEvent.ANALYSIS_OUTPUT, stream=self.stream, text=text, **self._owner)
