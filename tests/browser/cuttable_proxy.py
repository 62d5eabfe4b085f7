"""A line between a browser and a server that a test can cut and mend."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_MOUTHFUL = 65_536


class Line:
    """Passes connections on while it is whole; cut, it ends those there are and takes no more."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._ears = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._whole = True
        self.url = f"http://127.0.0.1:{self._ears.getsockname()[1]}"

    def cut(self) -> None:
        """Ends every connection, and refuses new ones."""
        with self._lock:
            self._whole = False
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Connections are passed on again."""
        self._whole = True

    def close(self) -> None:
        """The end."""
        self.cut()
        self._ears.shutdown(socket.SHUT_RDWR)
        for one in (self._ears, *self._open):
            one.close()

    def serve(self) -> None:
        """Takes connections until it is closed."""
        while True:
            try:
                near, _ = self._ears.accept()
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
            while mouthful := source.recv(_MOUTHFUL):
                goal.sendall(mouthful)
        for one in (source, goal):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def line_to(url: str) -> Iterator[Line]:
    """A line to the server at an address."""
    split = urlsplit(url)
    assert split.hostname is not None
    assert split.port is not None
    line = Line((split.hostname, split.port))
    thread = threading.Thread(target=line.serve, name="line", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        line.close()
        thread.join(60)
