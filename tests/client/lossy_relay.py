"""A relay that drops responses: after the server has done the work, before the response arrives."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress


class Lossy:
    """A relay to a server that drops the first responses. `swallowed` counts them."""

    def __init__(self, port: int, losses: int) -> None:
        self._port = port
        self._losses = losses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.swallowed = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._relay, args=(self._listener.accept()[0],), daemon=True).start()

    def _relay(self, caller: socket.socket) -> None:
        with suppress(OSError), caller, socket.create_connection(("127.0.0.1", self._port)) as server:
            threading.Thread(target=_pump, args=(caller, server), daemon=True).start()
            while data := server.recv(65_536):
                if self.swallowed < self._losses:
                    self.swallowed += 1
                    caller.shutdown(socket.SHUT_RDWR)
                    return
                caller.sendall(data)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def losing(port: int, losses: int = 1) -> Iterator[Lossy]:
    """Run a relay before a server on this machine."""
    with closing(Lossy(port, losses)) as relay:
        yield relay
