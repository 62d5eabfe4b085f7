"""One connection to the database that comes back by itself: opened when it is needed, replaced when it is gone.

What is asked over it is one statement, and that statement is one transaction: nothing is left open when an answer is
lost. Whoever asks says whether the same question may be asked again, and gets an answer within a bounded time.
"""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import asyncpg

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.health import Ailment, StoreHealth
from langlauf.store.postgres.address import Address, read_address

T = TypeVar("T")
#: How long a question may take in all, with every new connection. Whoever waits behind one that gave up waits as long
#: again: so a request is refused within ten seconds.
PATIENCE = 4.0
CONNECT_SECONDS = 2.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
#: The database chose between two that waited for each other: nothing of ours was kept, and it may be tried again.
_CLASHES = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
#: What one question may meet although the database is well: it took too long, or others were in its way.
_OF_ONE_QUESTION = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    *_CLASHES,
)
#: The database is away, starting, stopping, full, or did not answer in time.
_AWAY = (
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
#: Set on every connection: what is stuck ends by itself, a host that vanished holds nothing, a commit is on disk.
_SESSION = f"""
SET application_name = 'langlauf';
SET search_path = langlauf, pg_temp;
SET statement_timeout = '{int(PATIENCE * 1000)}ms';
SET lock_timeout = '{int(PATIENCE * 750)}ms';
SET idle_in_transaction_session_timeout = '10s';
SET tcp_user_timeout = '{int(PATIENCE * 1000)}ms';
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
DO $$ BEGIN
    SET client_connection_check_interval = '2s';
EXCEPTION WHEN others THEN
    NULL; -- some systems cannot look
END $$;
"""
#: For SO_LINGER: a close forgets what was not sent.
_AT_ONCE = struct.pack("ii", 1, 0)
#: What one statement of upkeep may take, such as a count over all rows.
LONG = 120.0

_AILMENTS = {asyncpg.ReadOnlySQLTransactionError: Ailment.READ_ONLY, asyncpg.DiskFullError: Ailment.FULL}


class Link:
    """A connection by name. Statements follow one another; who comes meanwhile waits."""

    def __init__(self, url: str, name: str, health: StoreHealth | None = None, *, of_callers: bool = False) -> None:
        self._address = read_address(url)
        self._name = name
        self._health = health
        #: whether it is asked what callers wish, of which some takes too long
        self._of_callers = of_callers
        self._connection: Any = None
        self._turn = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def busy(self) -> bool:
        """Whether somebody is asking over it."""
        return self._turn.locked()

    async def call(self, function: str, *values: Any, patience: float = PATIENCE) -> Any:
        """The one value that a function of the schema gives."""
        statement = f"SELECT {called(function, len(values))}"
        return await self._ask(lambda connection: connection.fetchval(statement, *values), patience)

    async def rows(self, function: str, *values: Any, patience: float = PATIENCE) -> list[Any]:
        """The rows that a function of the schema gives."""
        statement = f"SELECT * FROM {called(function, len(values))}"  # noqa: S608 - the name is one of ours
        return list(await self._ask(lambda connection: connection.fetch(statement, *values), patience))

    async def told(self, function: str, *values: Any) -> Any:
        """The value of a function that is told, behind its values, whether it was asked before."""
        [(value,)] = await self._told(f"SELECT {called(function, len(values) + 1)}", values)
        return value

    async def claims(self, function: str, *values: Any) -> list[Any]:
        """The same for its rows."""
        return await self._told(f"SELECT * FROM {called(function, len(values) + 1)}", values)  # noqa: S608 - our names

    async def submit_and_claim(self, new: Sequence[Any], claim: Sequence[Any]) -> Any:
        """Both in one transaction, the claim behind the submissions: their answers, and what was claimed."""
        return (await self._told(_submit_and_claim(len(new), len(claim)), (*new, *claim)))[0]

    async def _told(self, statement: str, values: Sequence[Any]) -> list[Any]:
        before = iter([False])
        return list(
            await self._ask(lambda connection: connection.fetch(statement, *values, next(before, True)), PATIENCE)
        )

    async def slow_rows(self, function: str, *values: Any) -> list[Any]:
        """The same, asked once, for a function that may take longer than those that somebody waits for."""
        statement = f"SELECT * FROM {called(function, len(values))}"  # noqa: S608 - the name is one of ours

        async def ask(connection: Any) -> list[Any]:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL statement_timeout = '{int(LONG)}s'")
                return list(await connection.fetch(statement, *values))

        return await self.use(ask)

    async def use(self, work: Callable[[Any], Awaitable[T]], *, patience: float = LONG) -> T:
        """Runs something of several statements on the connection, once."""
        return await self._ask(work, patience, again=False)

    async def close(self) -> None:
        """Lets go of the connection."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None and not connection.is_closed():
                try:
                    await connection.close(timeout=1.0)
                except (*_AWAY, asyncio.CancelledError):
                    connection.terminate()
            await asyncio.sleep(0)  # what was dropped is closed in the loop's next round

    async def _ask(self, ask: Callable[[Any], Awaitable[T]], patience: float, *, again: bool = True) -> T:
        deadline = monotonic() + patience
        pause = _FIRST_PAUSE
        reason: Exception | None = None
        async with self._turn:
            while True:
                try:
                    async with asyncio.timeout(max(0.01, deadline - monotonic())):
                        return await ask(await self._connected())
                except _CLASHES as error:
                    reason = error
                except _AWAY as error:
                    self._drop()
                    _raise_if_canceled(error)
                    # That there was no time for another try says less than what the last one met.
                    reason = reason if reason is not None and isinstance(error, TimeoutError) else error
                except asyncpg.PostgresError as error:
                    raise StoreError(f"the database refused a statement: {error}") from error
                except BaseException:
                    # Somebody went away in the middle: what the connection is doing is not known any more.
                    self._drop()
                    raise
                if not again or self._known(reason) or monotonic() + pause >= deadline:
                    raise self._unavailable(reason) from reason
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    def _known(self, reason: Exception) -> bool:
        """Whether it is known that nothing is written here: then no write waits for another answer."""
        ailment = ailment_of(reason)
        return self._health is not None and ailment is Ailment.READ_ONLY and self._health.ailment is ailment

    def _unavailable(self, reason: Exception) -> StoreUnavailable:
        words = str(reason) or type(reason).__name__
        ailment = ailment_of(reason)
        said = f"the database {'does not answer' if ailment is Ailment.AWAY else 'does not take writes'}: {words}"
        health = self._health
        own_fault = self._of_callers and isinstance(reason, _OF_ONE_QUESTION)
        if health is None or (own_fault and health.ailment is None):
            return StoreUnavailable(said)
        return health.report(ailment, said)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _forget_unsent(connection)
            connection.terminate()

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            self._connection = await connect(self._address)
        return self._connection


async def connect(address: Address) -> Any:
    """A new connection, with everything set that each of ours has."""
    connection = await asyncpg.connect(address.dsn, timeout=CONNECT_SECONDS, command_timeout=None)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.execute(_SESSION)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _raise_if_canceled(error: Exception) -> None:
    """Raise the cancel that an error stands in for: a rollback after a cancel may fail, and would hide it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


def _forget_unsent(connection: Any) -> None:
    """What the network has not taken yet is not sent any more, so that nothing is carried out after it was given up.

    Else a host that was cut off would have its last statements carried out when it is healed, and whoever was told that
    nothing was kept would have been told wrong.
    """
    try:
        theirs: int = connection._transport.get_extra_info("socket").fileno()  # noqa: SLF001 - there is no other way in
        # The twin is the same socket to the system; a loop does not let options of its own one be set.
        with socket.socket(fileno=os.dup(theirs)) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    except (AttributeError, OSError):
        return  # it is closed already: nothing is left to send


def ailment_of(error: Exception) -> Ailment:
    """What a failed question says about the database: it is only readable, full, or away."""
    return next((ailment for kind, ailment in _AILMENTS.items() if isinstance(error, kind)), Ailment.AWAY)


@cache
def called(function: str, values: int) -> str:
    """A call of a function with so many values."""
    return f"{function}({', '.join(f'${number}' for number in range(1, values + 1))})"


@cache
def _submit_and_claim(new: int, claim: int) -> str:
    """The turn of the claim comes first: a claim locks that before lanes. The claim waits for the answers.

    The values are the time and the others of `submit`, those of `claim` without the time, of which the third are its
    slots, and whether it is asked again.
    """
    again = f"${new + claim + 1}"
    submitted = ", ".join([*(f"${number}" for number in range(1, new + 1)), again])
    claimed = ["$1", *(f"${number}" for number in range(new + 1, new + claim + 1)), again]
    claimed[3] = f"CASE WHEN answers IS NOT NULL THEN {claimed[3]}::integer END"
    return f"""
        WITH turn AS MATERIALIZED (SELECT take_claim_turn() AS taken),
        accepted AS MATERIALIZED (SELECT submit({submitted}) AS answers FROM turn WHERE taken)
        SELECT answers, ARRAY(SELECT one FROM claim({", ".join(claimed)}) AS one) FROM accepted"""  # noqa: S608
