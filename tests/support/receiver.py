"""A webhook receiver on a real socket: it records requests, and answers well or badly, as a test says."""

import socket
import socketserver
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from standardwebhooks import Webhook

#: Seconds to wait for what will come, on a machine however busy.
PATIENCE = 60.0


class Arrived(NamedTuple):
    """One request, as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def message_id(self) -> str:
        """What names the message over all its repetitions."""
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> object:
        """The content, where the independent package finds the signature right; else it raises."""
        return Webhook(secret).verify(self.body, self.headers)


class Handler(BaseHTTPRequestHandler):
    """Record a request, then answer as its path is configured."""

    server: "Receiver"
    protocol_version = "HTTP/1.1"
    #: what it was asked
    arrived: Arrived

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        self.close_connection = True
        self.arrived = Arrived(self.path, headers, body, time.monotonic())
        with suppress(OSError):  # the caller may have disconnected
            self.server.arrived(self)

    def raw(self, data: bytes) -> None:
        """Says exactly this."""
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: what matters is kept."""


#: What a receiver does with a request after it was kept.
Manner = Callable[[Handler], None]


class Receiver(ThreadingHTTPServer):
    """Listens until it is closed."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, trust: ssl.SSLContext | None) -> None:
        self.manners: dict[str, Manner] = {}
        self.requests: list[Arrived] = []
        #: how many connections there were, whatever came over them
        self.connections = 0
        self.closing = threading.Event()
        self._news = threading.Condition()
        self._taken: Counter[str] = Counter()
        self._trust = trust
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        """Without asking what this machine is called."""
        socketserver.TCPServer.server_bind(self)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def url(self, path: str = "/hook") -> str:
        """The address of one of its paths."""
        scheme = "http" if self._trust is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def get_request(self) -> tuple[ssl.SSLSocket | object, object]:  # type: ignore[override]
        made, peer = super().get_request()
        self.connections += 1
        if self._trust is not None:
            made.settimeout(PATIENCE)
            made = self._trust.wrap_socket(made, server_side=True, do_handshake_on_connect=False)
        return made, peer

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: a caller may hang up."""

    def arrived(self, handler: Handler) -> None:
        """Record a request, and answer it."""
        with self._news:
            self.requests.append(handler.arrived)
            self._news.notify_all()
        self.manners.get(handler.path, answer(200))(handler)

    def of(self, path: str) -> list[Arrived]:
        """What arrived at a path."""
        return [one for one in list(self.requests) if one.path == path]

    def wait_for(self, number: int, path: str = "/hook", seconds: float = PATIENCE) -> list[Arrived]:
        """The requests of a path, when there are so many."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.of(path)) >= number, seconds), self.of(path)
        return self.of(path)

    def take(self, count: int, path: str = "/hook") -> list[Arrived]:
        """Return the next requests of a path that were not taken before, when there are so many."""
        first = self._taken[path]
        self._taken[path] += count
        return self.wait_for(first + count, path)[first : first + count]


@contextmanager
def receiving(address: str = "127.0.0.1", port: int = 0, *, trust: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver in a thread of this process."""
    server = Receiver(address, port, trust)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="receiver", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def answer(status: int, text: str = "", **headers: str) -> Manner:
    """Answers as one should."""

    def manner(handler: Handler) -> None:
        body = text.encode()
        handler.send_response_only(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.raw(body)

    return manner


def in_turn(*manners: Manner) -> Manner:
    """One after the other; the last one goes on."""
    left = list(manners)

    def manner(handler: Handler) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return manner


def hang(handler: Handler) -> None:
    """Never answers."""
    handler.server.closing.wait()


def drip(text: bytes) -> Manner:
    """A byte, and after a while another."""

    def manner(handler: Handler) -> None:
        for byte in text:
            handler.raw(bytes([byte]))
            if handler.server.closing.wait(0.1):
                return

    return manner


def endless(handler: Handler) -> None:
    """Answers, and does not stop."""
    handler.raw(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.raw(b"x" * 65_536)


def cut_off(text: bytes) -> Manner:
    """Says this much, and hangs up."""
    return lambda handler: handler.raw(text)
