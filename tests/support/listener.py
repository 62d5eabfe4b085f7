"""Somebody who takes webhooks on this machine: a real socket, what came, and what is answered."""

import queue
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

_PATIENCE = 60


class Sent(NamedTuple):
    """What came in one request; names of headers are in lower case."""

    headers: dict[str, str]
    body: bytes


class Listener:
    """Keeps what came by the path it came to, and answers what a test says."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.answers: dict[str, tuple[int, bytes]] = {}
        self._came: defaultdict[str, queue.Queue[Sent]] = defaultdict(queue.Queue)

    def url(self, path: str) -> str:
        """An address of its own for each test."""
        return f"http://127.0.0.1:{self._port}/{path}"

    def put(self, path: str, sent: Sent) -> tuple[int, bytes]:
        """Keeps it, and tells what to answer."""
        self._came[path].put(sent)
        return self.answers.get(path, (200, b""))

    def take(self, path: str, count: int) -> list[Sent]:
        """The next so many that came there."""
        return [self._came[path].get(timeout=_PATIENCE) for _ in range(count)]


@contextmanager
def listening() -> Iterator[Listener]:
    """One that listens until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, reply = listener.put(self.path.lstrip("/"), Sent(headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener = Listener(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
