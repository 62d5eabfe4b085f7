"""One named connection to the database, opened on demand and reopened when it breaks; and a pool for reads.

Each call is one statement and one transaction, so nothing stays open when a response is lost. The caller decides
whether a call may be retried, and every call ends within its timeout.
"""

import asyncio
import getpass
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg

from langlauf.clock import monotonic
from langlauf.domain.errors import SettingsError, StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.health import StoreHealth, StoreProblem

T = TypeVar("T")
#: Timeout of a call including reconnects. A caller queued behind a call that timed out waits as long again: a request
#: is refused within ten seconds.
CALL_TIMEOUT = 4.0
CONNECT_TIMEOUT = 2.0
#: Timeout of a maintenance statement, such as a count over all rows.
SLOW_TIMEOUT = 120.0
_FIRST_BACKOFF = 0.05
_MAX_BACKOFF = 0.5
_POOLER = "pooler"
_SESSION_MODE = "session"
#: Deadlock or serialization failure: the transaction was rolled back and may be retried.
_CONFLICTS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
#: Errors of one call that do not mean that the database is unhealthy: timeouts and lock conflicts.
_CALL_ERRORS = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    *_CONFLICTS,
)
#: The database is unreachable, starting, stopping, full, or did not respond in time.
_UNAVAILABLE = (
    OSError,
    EOFError,
    TimeoutError,
    ssl.SSLError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
#: Settings of every connection: stuck statements end by themselves, a lost host holds no locks, commits are durable.
SESSION_SETTINGS = f"""
SET application_name = 'langlauf';
SET search_path = langlauf, pg_temp;
SET statement_timeout = '{int(CALL_TIMEOUT * 1000)}ms';
SET lock_timeout = '{int(CALL_TIMEOUT * 750)}ms';
SET idle_in_transaction_session_timeout = '10s';
SET tcp_user_timeout = '{int(CALL_TIMEOUT * 1000)}ms';
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
DO $$ BEGIN
    SET client_connection_check_interval = '2s';
EXCEPTION WHEN others THEN
    NULL; -- not supported on every system
END $$;
"""
#: SO_LINGER with timeout 0: closing the socket discards unsent data.
_DISCARD_UNSENT = struct.pack("ii", 1, 0)
_AILMENTS = {asyncpg.ReadOnlySQLTransactionError: StoreProblem.READ_ONLY, asyncpg.DiskFullError: StoreProblem.FULL}


class DatabaseUrl(NamedTuple):
    """The driver's part of a database URL, and whether it goes through a pooler in session mode."""

    dsn: str
    through_pooler: bool

    def __repr__(self) -> str:
        return "DatabaseUrl(…)"  # it may hold a password


def parse_url(url: str) -> DatabaseUrl:
    """Split `pooler=session` from a URL; the driver understands the rest."""
    parts = urlsplit(url)
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    poolers = [value for name, value in parameters if name == _POOLER]
    if any(value != _SESSION_MODE for value in poolers):
        raise SettingsError(
            f"in the URL of the database, {_POOLER}= can only be {_SESSION_MODE}: "
            "a pooler must keep one server connection for each client connection"
        )
    rest = [(name, value) for name, value in parameters if name != _POOLER]
    return DatabaseUrl(urlunsplit(parts._replace(query=urlencode(rest))) if poolers else url, bool(poolers))


def login_name(url: str) -> str:
    """Return the login of a URL, else that of `PGUSER`, else that of the operating system."""
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query))
    return unquote(parts.username or "") or parameters.get("user") or os.environ.get("PGUSER") or getpass.getuser()


class DatabaseConnection:
    """A connection by name. Calls run one after another; concurrent callers queue."""

    def __init__(self, url: str, name: str, health: StoreHealth | None = None, *, for_requests: bool = False) -> None:
        self._url = parse_url(url)
        self._name = name
        self._health = health
        #: whether it runs queries of API callers: one that takes too long says nothing about the database
        self._for_requests = for_requests
        self._connection: Any = None
        self._lock = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether it is connected."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def busy(self) -> bool:
        """Whether a call is running."""
        return self._lock.locked()

    async def call(self, function: str, *values: Any, timeout_seconds: float = CALL_TIMEOUT) -> Any:
        """Return the single value of a database function."""
        statement = f"SELECT {call_sql(function, len(values))}"
        return await self._run(lambda connection: connection.fetchval(statement, *values), timeout_seconds)

    async def rows(self, function: str, *values: Any, timeout_seconds: float = CALL_TIMEOUT) -> list[Any]:
        """Return the rows of a database function."""
        statement = f"SELECT * FROM {call_sql(function, len(values))}"  # noqa: S608 - the name is one of ours
        return list(await self._run(lambda connection: connection.fetch(statement, *values), timeout_seconds))

    async def call_once(self, function: str, *values: Any) -> Any:
        """Return the value of a function whose last argument says whether this is a retry."""
        [(value,)] = await self._fetch_once(f"SELECT {call_sql(function, len(values) + 1)}", values)
        return value

    async def rows_once(self, function: str, *values: Any) -> list[Any]:
        """Return the rows of a function whose last argument says whether this is a retry."""
        return await self._fetch_once(f"SELECT * FROM {call_sql(function, len(values) + 1)}", values)  # noqa: S608

    async def _fetch_once(self, statement: str, values: Sequence[Any]) -> list[Any]:
        retry = iter([False])
        return list(
            await self._run(lambda connection: connection.fetch(statement, *values, next(retry, True)), CALL_TIMEOUT)
        )

    async def slow_rows(self, function: str, *values: Any) -> list[Any]:
        """Return the rows of a function that may take long; it is not retried."""
        statement = f"SELECT * FROM {call_sql(function, len(values))}"  # noqa: S608 - the name is one of ours

        async def fetch(connection: Any) -> list[Any]:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL statement_timeout = '{int(SLOW_TIMEOUT)}s'")
                return list(await connection.fetch(statement, *values))

        return await self.use(fetch)

    async def use(self, work: Callable[[Any], Awaitable[T]], *, timeout_seconds: float = SLOW_TIMEOUT) -> T:
        """Run several statements on the driver's connection, without a retry."""
        return await self._run(work, timeout_seconds, retry=False)

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and not connection.is_closed():
                try:
                    await connection.close(timeout=1.0)
                except (*_UNAVAILABLE, asyncio.CancelledError):
                    connection.terminate()
            await asyncio.sleep(0)  # a terminated transport is closed in the next iteration of the loop

    async def _run(self, work: Callable[[Any], Awaitable[T]], timeout_seconds: float, *, retry: bool = True) -> T:
        deadline = monotonic() + timeout_seconds
        backoff = _FIRST_BACKOFF
        reason: Exception | None = None
        async with self._lock:
            while True:
                try:
                    async with asyncio.timeout(max(0.01, deadline - monotonic())):
                        return await work(await self._connected())
                except _CONFLICTS as error:
                    reason = error
                except _UNAVAILABLE as error:
                    self._drop()
                    _raise_if_canceled(error)
                    # A timeout of the last try says less than the error of the one before.
                    reason = reason if reason is not None and isinstance(error, TimeoutError) else error
                except asyncpg.PostgresError as error:
                    raise StoreError(f"the database refused a statement: {error}") from error
                except BaseException:
                    # Canceled in the middle of a statement: the state of the connection is unknown.
                    self._drop()
                    raise
                if not retry or self._known_read_only(reason) or monotonic() + backoff >= deadline:
                    raise self._unavailable(reason) from reason
                await asyncio.sleep(backoff)
                backoff = min(_MAX_BACKOFF, backoff * 2)

    def _known_read_only(self, reason: Exception) -> bool:
        """Whether the store is already known to be read-only: a retry would fail as well."""
        problem = problem_of(reason)
        return self._health is not None and problem is StoreProblem.READ_ONLY and self._health.problem is problem

    def _unavailable(self, reason: Exception) -> StoreUnavailable:
        details = str(reason) or type(reason).__name__
        problem = problem_of(reason)
        message = (
            f"the database {'does not answer' if problem is StoreProblem.AWAY else 'does not take writes'}: {details}"
        )
        health = self._health
        caused_by_call = self._for_requests and isinstance(reason, _CALL_ERRORS)
        if health is None or (caused_by_call and health.problem is None):
            return StoreUnavailable(message)
        return health.report(problem, message)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _discard_unsent(connection)
            connection.terminate()

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            self._connection = await connect(self._url)
        return self._connection


async def connect(url: DatabaseUrl) -> Any:
    """Open a driver's connection with the settings of this program."""
    connection = await asyncpg.connect(url.dsn, timeout=CONNECT_TIMEOUT, command_timeout=None)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await connection.execute(SESSION_SETTINGS)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _raise_if_canceled(error: Exception) -> None:
    """Raise the cancellation that an error stands in for: a rollback after a cancel may fail, and would hide it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


def _discard_unsent(connection: Any) -> None:
    """Discard what the socket has not sent, so that no statement runs after its caller was told that it failed.

    Otherwise a host that was cut off would send its last statements when the network comes back.
    """
    try:
        fd: int = connection._transport.get_extra_info("socket").fileno()  # noqa: SLF001 - there is no other way in
        # A duplicate of the descriptor is the same socket; the event loop does not allow options on its own one.
        with socket.socket(fileno=os.dup(fd)) as duplicate:
            duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD_UNSENT)
    except (AttributeError, OSError):
        return  # closed already: nothing is left to send


def problem_of(error: Exception) -> StoreProblem:
    """Return what a failed call says about the database: read-only, full, or away."""
    return next((problem for kind, problem in _AILMENTS.items() if isinstance(error, kind)), StoreProblem.AWAY)


@cache
def call_sql(function: str, values: int) -> str:
    """Return a function call with so many numbered parameters."""
    return f"{function}({', '.join(f'${number}' for number in range(1, values + 1))})"


# -- pool for reads ----------------------------------------------------------------------------------------------------
# When all are busy, callers queue, with a timeout. A query whose caller was canceled runs to its end: its connection
# stays usable.

#: How many reads run at the same time.
POOL_SIZE = 4


class ReadPool:
    """Connections opened on demand; the one used last is taken first."""

    def __init__(self, url: str, name: str, size: int = POOL_SIZE, health: StoreHealth | None = None) -> None:
        self._free_places = asyncio.Semaphore(size)
        self.connections = [
            DatabaseConnection(url, f"{name}-{number}", health, for_requests=True) for number in range(1, size + 1)
        ]
        self._idle = list(reversed(self.connections))
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, function: str, *values: Any) -> Any:
        """Return the single value of a database function."""
        return await self._with_connection(lambda connection: connection.call(function, *values))

    async def rows(self, function: str, *values: Any) -> list[Any]:
        """Return the rows of a database function."""
        return await self._with_connection(lambda connection: connection.rows(function, *values))

    async def close(self) -> None:
        """Close the connections when running queries have ended."""
        if self._running:
            await asyncio.wait(self._running)
        await asyncio.gather(*(connection.close() for connection in self.connections))

    async def _with_connection(self, query: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._free_places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("the database is busy: other reads wait already; try again") from error
        task = asyncio.ensure_future(self._run(query))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _run(self, query: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        connection = self._idle.pop()
        try:
            return await query(connection)
        finally:
            self._idle.append(connection)
            self._free_places.release()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here because the caller may be gone


class PooledStore:
    """Base of the parts of a store that run over its pool. `at` returns a test's time, or None for the database's."""

    def __init__(self, pool: ReadPool, at: Callable[[], Instant | None]) -> None:
        self._pool = pool
        self._at = at
