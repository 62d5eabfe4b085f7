"""All connections of a server together: how many there may be, and who makes room for the next."""

import asyncio
import resource
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from uvicorn.server import ServerState

from langlauf.http.names import names_of
from langlauf.settings import Settings

if TYPE_CHECKING:
    from langlauf.http.connection import Connection

#: Descriptors that are left for the store, the workers' processes and whoever asks for /health.
_OTHER_DESCRIPTORS = 160
_LEAST_CONNECTIONS = 16
#: So many above the limit are still read, so that /health and /ready are answered and the others get a reason.
RESERVE = 32
#: Some ten milliseconds of work.
BEGUN_PER_TURN = 32


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection, and all of them together, may take."""

    head_seconds: float
    body_seconds: float
    write_seconds: float
    max_url: int
    max_headers: int
    max_fields: int
    max_connections: int
    #: where the application is, seen from the caller, where that is known
    public_url: str | None
    #: what it is called there; None where any name will do
    names: frozenset[str] | None


def bounds_from(settings: Settings, *, any_name: bool) -> Bounds:
    """The bounds that the settings name; no more connections than the system has descriptors for."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(_LEAST_CONNECTIONS, descriptors - _OTHER_DESCRIPTORS)
    if descriptors == resource.RLIM_INFINITY:
        possible = settings.max_connections
    return Bounds(
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
        write_seconds=settings.write_seconds,
        max_url=settings.max_url,
        max_headers=settings.max_headers,
        max_fields=settings.max_header_fields,
        max_connections=min(settings.max_connections, possible),
        public_url=settings.public_url,
        names=None if any_name else names_of(settings),
    )


class Turnstile:
    """Lets a few requests begin in each turn of the event loop, the others in the order they came.

    Where thousands arrive at once, the loop would begin all of them before it looks at a socket again: whoever comes
    next, a probe of /health for one, would wait for them all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, begin: Callable[[], None]) -> None:
        """Calls it at once, or when it is its turn."""
        if self._begun == 0:
            self._loop.call_soon(self._next_turn)
        if self._begun < BEGUN_PER_TURN and not self._waiting:
            self._begun += 1
            begin()
        else:
            self._waiting.append(begin)

    def _next_turn(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGUN_PER_TURN:
            self._begun += 1
            self._waiting.popleft()()
        if self._begun:
            self._loop.call_soon(self._next_turn)


class Crowd(ServerState):
    """The connections of one server, and which of them owe us a request, the longest first."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self.bounds = bounds
        self.idle: dict[Connection, None] = {}
        #: those that came when all others were at work; they are here until they have asked
        self.late: dict[Connection, None] = {}
        self._turnstile: Turnstile | None = None

    @property
    def turnstile(self) -> Turnstile:
        """Made on the loop that serves."""
        if self._turnstile is None:
            self._turnstile = Turnstile(asyncio.get_running_loop())
        return self._turnstile

    def joined(self, connection: "Connection") -> bool:
        """Takes a new one in, and says whether it is within the limit.

        Room is made by whoever has asked for nothing the longest: an ordinary request is read in no time.
        """
        while self._excess > 0 and self.idle:
            self._close_first(self.idle)
        if self._excess <= 0:
            self.idle[connection] = None
            return True
        while self._excess > RESERVE and self.late:
            self._close_first(self.late)
        self.late[connection] = None
        return False

    def asked(self, connection: "Connection") -> None:
        """It owes nothing any more: its request is here, or it is gone."""
        self.idle.pop(connection, None)
        self.late.pop(connection, None)

    @property
    def _excess(self) -> int:
        return len(self.connections) - self.bounds.max_connections

    def _close_first(self, some: "dict[Connection, None]") -> None:
        connection = next(iter(some))
        del some[connection]
        self.connections.discard(connection)
        connection.give_way()
