"""Raw connections: bytes as a hostile or broken client would send them, and what comes back."""

import json
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.http.test_errors import MEMBERS


class Reply(NamedTuple):
    """One response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def assert_problem(self, status: int, error: str) -> dict[str, Any]:
        """The problem in it, which must be that one and complete."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = json.loads(self.body)
        assert set(found) >= MEMBERS
        assert (found["ok"], found["error"], found["status"]) == (False, error, status)
        assert found["request_id"] == self.headers["x-request-id"]
        assert self.headers["cache-control"] == "no-store"
        return found


class RawConnection:
    """One connection to a server."""

    def __init__(self, url: str, *, timeout: float = 60.0, receive_buffer: int | None = None) -> None:
        parts = urlsplit(url)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((parts.hostname or "", parts.port or 0))
        self._buffer = b""

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self.socket.sendall(data)

    def rest(self) -> bytes:
        """Everything until the server ends the connection; a reset is an error."""
        found = self._buffer
        self._buffer = b""
        while part := self.socket.recv(65_536):
            found += part
        return found

    def reply(self, *, to_head: bool = False) -> Reply:
        """The next response; the one to HEAD has no body, whatever it says of its length."""
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split(" ")[1])
        length = 0 if to_head or status == 304 else int(headers.get("content-length", "0"))
        while len(self._buffer) < length:
            self._more()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Reply(status, headers, body)

    def closed(self) -> bool:
        """Whether the server has ended the connection, in order and without another byte; waits for it."""
        return not self._buffer and self.socket.recv(65_536) == b""

    def _more(self) -> None:
        part = self.socket.recv(65_536)
        assert part, f"the connection ended after {self._buffer!r}"
        self._buffer += part


def get(path: str = "/health", *headers: str) -> bytes:
    """A request without a body."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode("latin-1")


def post(body: bytes, *headers: str, path: str = "/analyze", length: int | None = None) -> bytes:
    """A submission; `length` is what it says of its body, where that is not the truth."""
    fields = ["Host: localhost", "Content-Type: application/json", "Prefer: respond-async", *headers]
    fields.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([f"POST {path} HTTP/1.1", *fields, "", ""]).encode("latin-1") + body
