"""A TCP proxy between a browser and a server that a test can cut and restore."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_PIECE = 65_536


class CuttableProxy:
    """Forwards connections; while it is cut, it closes all of them and refuses new ones."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._whole = True
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        with self._lock:
            self._whole = False
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Forward connections again."""
        self._whole = True

    def close(self) -> None:
        """Stop listening and close every connection."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._open):
            one.close()

    def serve(self) -> None:
        """Accept connections until it is closed."""
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open |= {near, far}
            for source, goal in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, goal), daemon=True).start()

    def _pass_on(self, source: socket.socket, goal: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                goal.sendall(piece)
        for one in (source, goal):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str) -> Iterator[CuttableProxy]:
    """Run a proxy to the server at a URL."""
    split = urlsplit(url)
    assert split.hostname is not None
    assert split.port is not None
    line = CuttableProxy((split.hostname, split.port))
    thread = threading.Thread(target=line.serve, name="line", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        line.close()
        thread.join(60)
