"""All connections of a server together: how many there may be, and who makes room for the next."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from email.utils import formatdate
from time import time
from typing import TYPE_CHECKING

import msgspec

from langlauf.auth.allowed_hosts import allowed_hosts
from langlauf.auth.client_address import TrustedProxies, trusted_proxies
from langlauf.server.fair_queue import FairQueue
from langlauf.settings import Settings

if TYPE_CHECKING:
    from langlauf.server.connection import HttpConnection

#: Above what a proxy before it keeps, and above the longest advice of Retry-After.
KEEP_ALIVE_SECONDS = 75
#: So many above the limit are still read, so that /health and /ready are answered, and others than those who hold most.
RESERVE = 32
#: A millisecond or two of work: a request takes several turns, and waits for all that each of them does.
STARTS_PER_ITERATION = 8


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection, and all of them together, may take."""

    head_seconds: float
    body_seconds: float
    write_seconds: float
    keep_alive_seconds: float
    max_url: int
    max_headers: int
    max_fields: int
    max_connections: int
    #: where the application is, seen from the caller, where that is known
    public_url: str | None
    #: what it is called there; None where any name will do
    names: frozenset[str] | None
    proxies: TrustedProxies


def server_limits_from(settings: Settings, *, any_name: bool) -> ServerLimits:
    """The bounds that the settings name; no more connections than the system has descriptors for."""
    return ServerLimits(
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
        write_seconds=settings.write_seconds,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        max_url=settings.max_url,
        max_headers=settings.max_headers,
        max_fields=settings.max_header_fields,
        max_connections=settings.connection_limit,
        public_url=settings.public_url,
        names=None if any_name else allowed_hosts(settings),
        proxies=trusted_proxies(settings),
    )


class StartLimiter:
    """Lets a few requests begin in each turn of the event loop; holders take turns, each in the order it came.

    Where thousands arrive at once, the loop would begin all of them before it looks at a socket again: the next
    request, a probe of /health for one, would wait for them all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = 0
        #: by holder; the one that had its turn longest ago is the first
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def enter(self, holder: str, begin: Callable[[], None]) -> None:
        """Calls it at once, or when it is its turn."""
        if self._begun == 0:
            self._loop.call_soon(self._next_turn)
        if self._begun < STARTS_PER_ITERATION and not self._waiting:
            self._begun += 1
            begin()
        else:
            self._waiting.setdefault(holder, deque()).append(begin)

    def _next_turn(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < STARTS_PER_ITERATION:
            self._begun += 1
            holder = next(iter(self._waiting))
            line = self._waiting.pop(holder)
            begin = line.popleft()
            if line:
                self._waiting[holder] = line
            begin()
        if self._begun:
            self._loop.call_soon(self._next_turn)


class ConnectionLimit:
    """The connections of one server, whose they are, and which of them make room for others.

    Up to the limit every connection is served, above it a reserve is read. For a request that comes there an idle
    connection gives way, each time the oldest of the holder that has the most: an org, or an address before it is
    known whose a connection is. Where all are at work, /health and /ready are answered in the reserve, and requests of
    holders that do not have their part yet; for these a stalled one gives way. Beyond the reserve nothing is accepted
    until a connection is gone.
    """

    def __init__(self, bounds: ServerLimits) -> None:
        self.bounds = bounds
        self.connections: set[HttpConnection] = set()
        #: the requests that are being answered
        self.tasks: set[asyncio.Task[None]] = set()
        #: no request is under way, nor one on its way
        self.idle: FairQueue[HttpConnection] = FairQueue()
        #: came above the limit, and do not ask
        self.late: FairQueue[HttpConnection] = FairQueue()
        #: a body that does not come, or an answer that is not read
        self.stalled: FairQueue[HttpConnection] = FairQueue()
        #: have been answered or cut off; all that is left is to be closed by the client
        self.leaving: set[HttpConnection] = set()
        #: connections of each holder, without those that leave
        self._held: Counter[str] = Counter()
        self._turnstile: StartLimiter | None = None
        self._date = (0, b"")
        #: called when a connection is gone, or could give way
        self.changed: Callable[[], None] = lambda: None

    @property
    def turnstile(self) -> StartLimiter:
        """Made on the loop that serves."""
        if self._turnstile is None:
            self._turnstile = StartLimiter(asyncio.get_running_loop())
        return self._turnstile

    def date_line(self) -> bytes:
        """The field that says when an answer was made, written once a second."""
        second = int(time())
        if self._date[0] != second:
            self._date = (second, b"date: %b\r\n" % formatdate(second, usegmt=True).encode())
        return self._date[1]

    @property
    def over_limit(self) -> bool:
        """Whether there are more connections than there should be."""
        return len(self.connections) - len(self.leaving) > self.bounds.max_connections

    def has_room(self, arriving: int) -> bool:
        """Whether one more can be accepted beside those that arrive."""
        return len(self.connections) + arriving < self.bounds.max_connections + RESERVE

    def make_room(self) -> None:
        """One more wants to come: let a silent one leave, if there is any."""
        silent = self.idle.pop() or self.late.pop() or self.stalled.pop(at_least=2)
        if silent is not None:
            silent.give_way()

    def joined(self, connection: "HttpConnection") -> bool:
        """Take a new one in, and return whether it is within the limit."""
        self._held[connection.holder] += 1
        return not self.over_limit

    def silent(self, connection: "HttpConnection", *, late: bool) -> None:
        """It could have asked by now: it may give way to others."""
        if self._stays(connection):
            (self.late if late else self.idle).add(connection, connection.holder)
            self.changed()

    def stalls(self, connection: "HttpConnection") -> None:
        """Its client keeps the server waiting: it may give way to others."""
        if self._stays(connection):
            self.stalled.add(connection, connection.holder)

    def settles(self) -> bool:
        """A request came above the limit: let idle ones leave for it, and return whether it is within the limit now."""
        while self.over_limit and (idle := self.idle.pop()) is not None:
            idle.give_way()
        return not self.over_limit

    def asked(self, connection: "HttpConnection") -> None:
        """Its request is here: it is not idle any more."""
        self.idle.discard(connection)
        self.late.discard(connection)

    def leaves(self, connection: "HttpConnection") -> None:
        """Nothing more is done for it."""
        if connection in self.leaving:
            return
        self.leaving.add(connection)
        self.asked(connection)
        self.stalled.discard(connection)
        self._let_go(connection.holder)

    def left(self, connection: "HttpConnection") -> None:
        """It is closed."""
        self.leaves(connection)
        self.leaving.discard(connection)
        self.changed()

    def hold(self, connection: "HttpConnection", holder: str) -> None:
        """Count a connection for another holder from here on."""
        if connection.holder == holder or not self._stays(connection):
            return
        self._let_go(connection.holder)
        self._held[holder] += 1
        connection.holder = holder
        for queue in (self.idle, self.late, self.stalled):
            if connection in queue:
                queue.add(connection, holder)

    def admits(self, connection: "HttpConnection") -> bool:
        """Whether a request above the limit is answered: its holder has no more than its part, and others make room."""
        if not self.over_limit:
            return True
        part = self.bounds.max_connections / len(self._held)
        if self._held[connection.holder] > max(1, part):
            return False
        if (stalled := self.stalled.pop(at_least=2)) is not None:
            stalled.give_way()
        return True

    def _stays(self, connection: "HttpConnection") -> bool:
        return connection in self.connections and connection not in self.leaving

    def _let_go(self, holder: str) -> None:
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
