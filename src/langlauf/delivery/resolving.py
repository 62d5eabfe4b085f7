"""What a name stands for. The system's resolver cannot be hurried: each question has a thread that nobody waits for.

The pool of the event loop has a few threads for everybody; names whose server never answers would hold them all.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address

from langlauf.domain.addresses import Address, unwrap_mapped


class TooManyQuestions(OSError):
    """So many names are being asked for without an answer that no more are asked for now."""


class Resolver:
    """Asks the system what names stand for, for a few at once."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)

    async def addresses(self, host: str) -> list[Address]:
        """All addresses of a name, each once, in the order of the system. An `OSError` says that there are none."""
        if not self._places.acquire(blocking=False):
            raise TooManyQuestions("too many names are being asked for without an answer")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def settle(deliver: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if answer.done() else deliver())

        def ask() -> None:
            try:
                found = _ask(host)
            except OSError as error:
                refused = error  # the name of the exception ends with its block
                settle(lambda: answer.set_exception(refused))
            else:
                settle(lambda: answer.set_result(found))
            finally:
                self._places.release()

        threading.Thread(target=ask, name="langlauf-resolver", daemon=True).start()
        return await answer


def _ask(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(unwrap_mapped(ip_address(place[0])) for *_, place in found))
