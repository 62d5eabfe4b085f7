"""The connections that reads share."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.store.postgres import links as links_module
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.links import Links
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database
from tests.support.processes import eventually

_ALIVE = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_KILL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
#: Waits for a lock that the test holds, and lets it go at once.
_WAIT = "pg_advisory_lock_shared"


def _play(size: int, scene: Callable[[Links, str], Awaitable[None]]) -> None:
    async def main(url: str) -> None:
        links = Links(url, "test", size)
        try:
            await scene(links, url)
        finally:
            await links.close()
        # All are let go; the server ends a process a moment after its client has gone.
        eventually(lambda: fetch(url, _ALIVE)[0]["count"] == 0)

    with migrated_database() as url:
        asyncio.run(main(url))


async def _held_up(links: Links, holder: Links, number: int) -> list[asyncio.Task[object]]:
    """Questions that are not answered until the holder lets go."""
    await holder.call("pg_advisory_lock", 7)
    tasks = [asyncio.ensure_future(links.call(_WAIT, 7)) for _ in range(number)]
    while await holder.call("count_waiting_locks") < number:  # noqa: ASYNC110 - only the database knows
        await asyncio.sleep(0.01)
    return tasks


_COUNT = """CREATE FUNCTION langlauf.count_waiting_locks() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted $$"""


def test_nobody_waits_for_a_stranger_while_one_is_free() -> None:
    """Three that are held up, and a fourth that is answered at once; connections are opened as they are needed."""

    async def scene(links: Links, url: str) -> None:
        fetch(url, _COUNT)
        assert await links.call("moment", 5) == 5
        assert fetch(url, _ALIVE)[0]["count"] == 1
        holder = Links(url, "holder", 1)
        tasks = await _held_up(links, holder, 3)
        assert await links.call("moment", 6) == 6
        assert not any(task.done() for task in tasks)
        await holder.close()
        await asyncio.gather(*tasks)

    _play(4, scene)


def test_who_waits_is_served_in_the_order_of_arrival() -> None:
    """One connection, and several that wait for it."""

    async def scene(links: Links, url: str) -> None:
        fetch(url, _COUNT)
        holder = Links(url, "holder", 1)
        [first] = await _held_up(links, holder, 1)
        order = list[int]()

        async def ask(number: int) -> None:
            order.append(await links.call("moment", number))

        tasks = [asyncio.ensure_future(ask(number)) for number in range(8)]
        await asyncio.sleep(0)
        await holder.close()
        await asyncio.gather(first, *tasks)
        assert order == list(range(8))

    _play(1, scene)


def test_who_waits_too_long_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a bounded time, whatever those before it wait for; later it is as if nothing had been."""
    monkeypatch.setattr(links_module, "PATIENCE", 0.2)

    async def scene(links: Links, url: str) -> None:
        fetch(url, _COUNT)
        holder = Links(url, "holder", 1)
        [first] = await _held_up(links, holder, 1)
        with pytest.raises(StoreUnavailable, match="busy"):
            await links.call("moment", 1)
        await holder.close()
        await first
        assert await links.call("moment", 2) == 2

    _play(1, scene)


def test_a_connection_that_broke_is_replaced() -> None:
    """Nobody who asks notices."""

    async def scene(links: Links, url: str) -> None:
        before = {await links.call("pg_backend_pid")}
        fetch(url, _KILL)
        pids = await asyncio.gather(*(links.call("pg_backend_pid") for _ in range(6)))
        assert not before & set(pids)

    _play(2, scene)


def test_a_caller_that_goes_away_breaks_nothing() -> None:
    """Its question is answered to the end, and the connection is used for the next."""

    async def scene(links: Links, url: str) -> None:
        fetch(url, _COUNT)
        pid = await links.call("pg_backend_pid")
        holder = Links(url, "holder", 1)
        [gone] = await _held_up(links, holder, 1)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await holder.close()
        assert await links.call("pg_backend_pid") == pid

    _play(1, scene)


def test_an_error_that_a_cancel_led_to_does_not_stand_in_for_it() -> None:
    """A rollback after a cancel may fail; a loop that outlives errors would then never hear that it is to stop."""

    async def main(url: str) -> None:
        link, begun = Link(url, "test"), asyncio.Event()

        async def work(_: object) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise asyncpg.InterfaceError("another operation is in progress") from None

        task = asyncio.create_task(link.use(work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await link.close()

    with migrated_database() as url:
        asyncio.run(main(url))
