"""The limit on connections of a server: how many there may be, and which one is evicted for the next."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from email.utils import formatdate
from time import time
from typing import TYPE_CHECKING

import msgspec

from langlauf.auth.caller import TrustedProxies, allowed_hosts, trusted_proxies
from langlauf.clock import monotonic
from langlauf.service.request_limits import FairQueue
from langlauf.settings import Settings

if TYPE_CHECKING:
    from langlauf.server.connection import HttpConnection

#: Longer than the keep-alive of usual proxies, and than the longest Retry-After.
KEEP_ALIVE_SECONDS = 75
#: Connections above the limit that are still read, so that /health, /ready and small holders get an answer.
RESERVE = 32
#: Requests started per iteration of the event loop at most.
STARTS_PER_ITERATION = 8
#: Where an iteration takes longer, fewer requests are started: every other request waits for its end.
ITERATION_SECONDS = 0.002


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection, and of all of them together."""

    head_seconds: float
    body_seconds: float
    write_seconds: float
    keep_alive_seconds: float
    max_url: int
    max_headers: int
    max_fields: int
    max_connections: int
    #: the public URL of the application, where it is set
    public_url: str | None
    #: host names that requests may use; None allows any
    allowed_hosts: frozenset[str] | None
    proxies: TrustedProxies


def server_limits_from(settings: Settings, *, any_host: bool) -> ServerLimits:
    """Return the limits of the settings; at most as many connections as the system has descriptors for."""
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
        allowed_hosts=None if any_host else allowed_hosts(settings),
        proxies=trusted_proxies(settings),
    )


class StartLimiter:
    """Starts a few requests per iteration of the event loop, round-robin over holders, in order within each.

    When thousands arrive at once, the loop would start all of them before it polls a socket again: the next request,
    such as a probe of /health, would wait for them all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = monotonic) -> None:
        self._loop = loop
        self._clock = clock
        self._started = 0
        self._most = STARTS_PER_ITERATION
        #: when the current iteration began
        self._began = 0.0
        #: by holder; the one served longest ago is first
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def start(self, holder: str, begin: Callable[[], None]) -> None:
        """Call `begin` now, or in a later iteration of the loop."""
        if self._started == 0:
            self._began = self._clock()
            self._loop.call_soon(self._next_iteration)
        if self._started < self._most and not self._waiting:
            self._started += 1
            begin()
        else:
            self._waiting.setdefault(holder, deque()).append(begin)

    def _next_iteration(self) -> None:
        self._started = 0
        now = self._clock()
        short = now - self._began < ITERATION_SECONDS
        self._most = min(STARTS_PER_ITERATION, self._most + 1) if short else max(1, self._most // 2)
        self._began = now
        while self._waiting and self._started < self._most:
            self._started += 1
            holder = next(iter(self._waiting))
            queue = self._waiting.pop(holder)
            begin = queue.popleft()
            if queue:
                self._waiting[holder] = queue
            begin()
        if self._started:
            self._loop.call_soon(self._next_iteration)


class ConnectionLimit:
    """The connections of one server, their holders, and which of them are evicted for others.

    Up to the limit every connection is served; above it, a reserve is read. For a request in the reserve an idle
    connection is evicted, the oldest of the holder with the most connections. A holder is an org, or an address until
    the org is known. When no connection is idle, the reserve answers /health, /ready and holders below their fair
    share; for these a stalled connection is evicted. Beyond the reserve nothing is accepted until a connection closes.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.connections: set[HttpConnection] = set()
        #: the requests being answered
        self.tasks: set[asyncio.Task[None]] = set()
        #: no request is being handled or arriving
        self.idle: FairQueue[HttpConnection] = FairQueue()
        #: opened above the limit, without a request
        self.late: FairQueue[HttpConnection] = FairQueue()
        #: waiting for a body, or for the client to read
        self.stalled: FairQueue[HttpConnection] = FairQueue()
        #: being closed
        self.closing: set[HttpConnection] = set()
        #: connections of each holder, without those being closed
        self._held: Counter[str] = Counter()
        self._start_limiter: StartLimiter | None = None
        self._date = (0, b"")
        #: called when a connection has closed, or could be evicted
        self.changed: Callable[[], None] = lambda: None

    @property
    def start_limiter(self) -> StartLimiter:
        """Return the start limiter, created on the serving loop."""
        if self._start_limiter is None:
            self._start_limiter = StartLimiter(asyncio.get_running_loop())
        return self._start_limiter

    def date_header(self) -> bytes:
        """Return the Date field of a response, formatted once a second."""
        second = int(time())
        if self._date[0] != second:
            self._date = (second, b"date: %b\r\n" % formatdate(second, usegmt=True).encode())
        return self._date[1]

    @property
    def over_limit(self) -> bool:
        """Whether there are more connections than the limit."""
        return len(self.connections) - len(self.closing) > self.limits.max_connections

    def has_capacity(self, arriving: int) -> bool:
        """Whether one more can be accepted besides those being accepted."""
        return len(self.connections) + arriving < self.limits.max_connections + RESERVE

    def evict_one(self) -> None:
        """Evict an idle or stalled connection, if there is one."""
        silent = self.idle.pop() or self.late.pop() or self.stalled.pop(at_least=2)
        if silent is not None:
            silent.evict()

    def add(self, connection: "HttpConnection") -> bool:
        """Count a new connection, and return whether it is within the limit."""
        self._held[connection.holder] += 1
        return not self.over_limit

    def mark_idle(self, connection: "HttpConnection", *, late: bool) -> None:
        """Allow eviction of a connection without a request."""
        if self._is_open(connection):
            (self.late if late else self.idle).add(connection, connection.holder)
            self.changed()

    def mark_stalled(self, connection: "HttpConnection") -> None:
        """Allow eviction of a connection whose client keeps the server waiting."""
        if self._is_open(connection):
            self.stalled.add(connection, connection.holder)

    def evict_idle(self) -> bool:
        """Evict idle connections for a request above the limit, and return whether it is within the limit now."""
        while self.over_limit and (idle := self.idle.pop()) is not None:
            idle.evict()
        return not self.over_limit

    def mark_busy(self, connection: "HttpConnection") -> None:
        """The connection is no longer idle: its request arrived, or it closes."""
        self.idle.discard(connection)
        self.late.discard(connection)

    def mark_closing(self, connection: "HttpConnection") -> None:
        """Stop counting a connection that only waits for its client to read the rest."""
        if connection in self.closing:
            return
        self.closing.add(connection)
        self.mark_busy(connection)
        self.stalled.discard(connection)
        self._uncount(connection.holder)

    def remove(self, connection: "HttpConnection") -> None:
        """Forget a closed connection."""
        self.mark_closing(connection)
        self.closing.discard(connection)
        self.changed()

    def change_holder(self, connection: "HttpConnection", holder: str) -> None:
        """Count a connection for another holder from here on."""
        if connection.holder == holder or not self._is_open(connection):
            return
        self._uncount(connection.holder)
        self._held[holder] += 1
        connection.holder = holder
        for queue in (self.idle, self.late, self.stalled):
            if connection in queue:
                queue.add(connection, holder)

    def admits(self, connection: "HttpConnection") -> bool:
        """Whether to answer a request above the limit: only if its holder has no more than its fair share.

        Evicts a stalled connection for it.
        """
        if not self.over_limit:
            return True
        fair_share = self.limits.max_connections / len(self._held)
        if self._held[connection.holder] > max(1, fair_share):
            return False
        if (stalled := self.stalled.pop(at_least=2)) is not None:
            stalled.evict()
        return True

    def _is_open(self, connection: "HttpConnection") -> bool:
        return connection in self.connections and connection not in self.closing

    def _uncount(self, holder: str) -> None:
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
