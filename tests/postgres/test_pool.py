"""The pool of connections for reads."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.store.postgres import connection as pool_module
from langlauf.store.postgres.connection import DatabaseConnection, ReadPool
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database
from tests.support.processes import eventually

_ALIVE = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_KILL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
#: Waits for a lock that the test holds, and releases it at once.
_WAIT = "pg_advisory_lock_shared"


def _play(size: int, scene: Callable[[ReadPool, str], Awaitable[None]]) -> None:
    async def main(url: str) -> None:
        pool = ReadPool(url, "test", size)
        try:
            await scene(pool, url)
        finally:
            await pool.close()
        # All are closed; the server ends a process a moment after its client has gone.
        eventually(lambda: fetch(url, _ALIVE)[0]["count"] == 0)

    with migrated_database() as url:
        asyncio.run(main(url))


async def _blocked_queries(pool: ReadPool, holder: ReadPool, number: int) -> list[asyncio.Task[object]]:
    """Start queries that wait until the holder releases its lock."""
    await holder.call("pg_advisory_lock", 7)
    tasks = [asyncio.ensure_future(pool.call(_WAIT, 7)) for _ in range(number)]
    while await holder.call("count_waiting_locks") < number:  # noqa: ASYNC110 - only the database knows
        await asyncio.sleep(0.01)
    return tasks


_COUNT = """CREATE FUNCTION langlauf.count_waiting_locks() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted $$"""


def test_a_free_connection_answers_while_others_are_busy() -> None:
    """Three queries wait, the fourth is answered at once; connections are opened on demand."""

    async def scene(pool: ReadPool, url: str) -> None:
        fetch(url, _COUNT)
        assert await pool.call("moment", 5) == 5
        assert fetch(url, _ALIVE)[0]["count"] == 1
        holder = ReadPool(url, "holder", 1)
        tasks = await _blocked_queries(pool, holder, 3)
        assert await pool.call("moment", 6) == 6
        assert not any(task.done() for task in tasks)
        await holder.close()
        await asyncio.gather(*tasks)

    _play(4, scene)


def test_waiting_queries_run_in_the_order_of_arrival() -> None:
    """One connection, and several queries that wait for it."""

    async def scene(pool: ReadPool, url: str) -> None:
        fetch(url, _COUNT)
        holder = ReadPool(url, "holder", 1)
        [first] = await _blocked_queries(pool, holder, 1)
        order = list[int]()

        async def ask(number: int) -> None:
            order.append(await pool.call("moment", number))

        tasks = [asyncio.ensure_future(ask(number)) for number in range(8)]
        await asyncio.sleep(0)
        await holder.close()
        await asyncio.gather(first, *tasks)
        assert order == list(range(8))

    _play(1, scene)


def test_a_query_that_waits_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its timeout, whatever the others wait for; later queries succeed."""
    monkeypatch.setattr(pool_module, "CALL_TIMEOUT", 0.2)

    async def scene(pool: ReadPool, url: str) -> None:
        fetch(url, _COUNT)
        holder = ReadPool(url, "holder", 1)
        [first] = await _blocked_queries(pool, holder, 1)
        with pytest.raises(StoreUnavailable, match="busy"):
            await pool.call("moment", 1)
        await holder.close()
        await first
        assert await pool.call("moment", 2) == 2

    _play(1, scene)


def test_a_connection_that_broke_is_replaced() -> None:
    """Callers do not notice."""

    async def scene(pool: ReadPool, url: str) -> None:
        before = {await pool.call("pg_backend_pid")}
        fetch(url, _KILL)
        pids = await asyncio.gather(*(pool.call("pg_backend_pid") for _ in range(6)))
        assert not before & set(pids)

    _play(2, scene)


def test_a_canceled_query_keeps_its_connection() -> None:
    """It runs to its end, and the connection runs the next one."""

    async def scene(pool: ReadPool, url: str) -> None:
        fetch(url, _COUNT)
        pid = await pool.call("pg_backend_pid")
        holder = ReadPool(url, "holder", 1)
        [gone] = await _blocked_queries(pool, holder, 1)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await holder.close()
        assert await pool.call("pg_backend_pid") == pid

    _play(1, scene)


def test_a_cancel_is_not_hidden_by_the_error_of_its_rollback() -> None:
    """A rollback after a cancel may fail; a loop that survives errors would then never stop."""

    async def main(url: str) -> None:
        connection, begun = DatabaseConnection(url, "test"), asyncio.Event()

        async def work(_: object) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise asyncpg.InterfaceError("another operation is in progress") from None

        task = asyncio.create_task(connection.use(work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await connection.close()

    with migrated_database() as url:
        asyncio.run(main(url))
