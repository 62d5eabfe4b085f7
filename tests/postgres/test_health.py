"""The health of a database: a read-only one is unhealthy, one with slow reads is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from langlauf.domain.errors import SettingsError, StoreUnavailable, StoreUnhealthy
from langlauf.hints import Hints
from langlauf.store.health import StoreProblem
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import execute
from tests.support.postgres_stores import migrated_database

_SHORT = 0.3
#: As after a failover: every session ends, and new ones have the new settings.
_END_SESSIONS = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def _set_up(url: str, words: str) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    execute(url, "SET default_transaction_read_only = off", f'ALTER DATABASE "{name}" {words}', _END_SESSIONS)


def _play(scene: Callable[[PostgresStore, str], Awaitable[None]]) -> None:
    async def main(url: str) -> None:
        store = await PostgresStore.open(url, hints=Hints(), notify=False)
        try:
            await scene(store, url)
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


def test_a_read_only_database_is_unhealthy_until_it_accepts_writes() -> None:
    """Reads are answered; a program does not start on it, and a running one recovers."""

    async def scene(store: PostgresStore, url: str) -> None:
        await store.health.admit()
        await asyncio.to_thread(_set_up, url, "SET default_transaction_read_only = on")
        with pytest.raises(StoreUnhealthy, match="read-only"):
            await store._connections["control"].call("record_duty", None, "sweep", "host-1", timeout_seconds=_SHORT)
        assert store.health.problem is StoreProblem.READ_ONLY
        await store.check()
        with pytest.raises(SettingsError, match="RESET default_transaction_read_only"):
            await PostgresStore.open(url, hints=Hints(), notify=False)
        await asyncio.to_thread(_set_up, url, "RESET default_transaction_read_only")
        await store.health.watch()
        assert store.health.problem is None

    _play(scene)


def test_a_slow_read_does_not_make_the_database_unhealthy() -> None:
    """A caller could otherwise take a server out of service with one slow query."""

    async def scene(store: PostgresStore, _: str) -> None:
        with pytest.raises(StoreUnavailable) as raised:
            await store._pool.connections[0].call("pg_sleep", 60.0, timeout_seconds=_SHORT)
        assert not isinstance(raised.value, StoreUnhealthy)
        assert store.health.problem is None

    _play(scene)
