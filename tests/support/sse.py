"""A strict reader of server-sent events, written from the rules (WHATWG HTML, 9.2.5 and 9.2.6)."""

import codecs
import re
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class ServerEvent(NamedTuple):
    """An event as a browser would dispatch it."""

    kind: str
    data: str
    last_event_id: str


class EventParser:
    """Takes the bytes of a stream in any pieces; what is not UTF-8 raises. Comments are kept for tests to look at."""

    def __init__(self) -> None:
        self.events: list[ServerEvent] = []
        self.comments: list[str] = []
        self.unknown: list[str] = []
        self.retry: int | None = None
        self.last_event_id = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._began = self._after_cr = False
        self._line = ""
        self._id_buffer = self._kind = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are complete with this piece."""
        text = self._decoder.decode(piece)
        if text and not self._began:
            self._began = True
            text = text.removeprefix("\ufeff")
        before = len(self.events)
        if text:
            if self._after_cr:  # the line ended with the CR already
                text = text.removeprefix("\n")
            self._after_cr = text.endswith("\r") if text else False
            *lines, self._line = _LINE_END.split(self._line + text)
            for line in lines:
                self._take(line)
        return self.events[before:]

    def _take(self, line: str) -> None:
        if line == "":
            self._dispatch()
        elif line.startswith(":"):
            self.comments.append(line[1:])
        else:
            name, _, value = line.partition(":")
            self._field(name, value.removeprefix(" "))

    def _field(self, name: str, value: str) -> None:
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            if "\0" not in value:
                self._id_buffer = value
        elif name == "retry":
            if value.isascii() and value.isdigit():
                self.retry = int(value)
        else:
            self.unknown.append(name)

    def _dispatch(self) -> None:
        self.last_event_id = self._id_buffer
        kind, self._kind = self._kind, ""
        data, self._data = self._data, []
        if data:
            self.events.append(ServerEvent(kind or "message", "\n".join(data), self.last_event_id))
