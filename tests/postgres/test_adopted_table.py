"""The table of an earlier system once it is adopted: its function, the store beside it, locks, and who may call it."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from langlauf.compat import adopt as adopting
from langlauf.compat.earlier_table import CannotAdopt
from tests.postgres.adopted_table import CHECK, EARLIER, ROWS, adopt, facts, migrate
from tests.support.postgres import address, execute, fetch, fresh_database, own_server

# -- the function ------------------------------------------------------------------------------------------------------


def overdue(url: str, seconds: int = 121, **values: object) -> str:
    """A row that has been generating for so long by the database's clock; its id."""
    columns = ", ".join(("status", "started_at", *values))
    given = ", ".join(("'generating'", f"now() - interval '{seconds} s'", *map(str, values.values())))
    [[found]] = fetch(url, f"INSERT INTO public.reading_jobs ({columns}) VALUES ({given}) RETURNING id")
    return str(found)


def row(url: str, job_id: str) -> Any:
    """One row of the table."""
    [found] = fetch(url, "SELECT * FROM public.reading_jobs WHERE id = $1", job_id)
    return found


def test_what_takes_too_long_is_found(earlier: str) -> None:
    """Over 120 seconds, with retries left or without; what is younger, has no start or another state stays."""
    adopt(earlier)
    before = fetch(earlier, ROWS)
    again, spent = overdue(earlier), overdue(earlier, retry_count=3)
    never = overdue(earlier, max_retries=0)
    young = overdue(earlier, seconds=110)
    [[unstarted]] = fetch(earlier, "INSERT INTO public.reading_jobs (status) VALUES ('generating') RETURNING id")
    execute(earlier, "INSERT INTO public.reading_jobs (status, started_at) VALUES ('processing', '2025-01-01')")
    [[count, ids]] = fetch(earlier, CHECK)
    assert (count, {str(one) for one in ids}) == (3, {again, spent, never})
    found = row(earlier, again)
    assert (found["status"], found["error_code"], found["retry_count"]) == ("timeout", "TIMEOUT", 0)
    meta = json.loads(found["error_meta"])
    assert meta["threshold_seconds"] == 120
    assert set(meta) == {"threshold_seconds", "started_at", "detected_at", "retry_count", "max_retries"}
    assert (meta["retry_count"], meta["max_retries"]) == (0, 3)
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", meta[name])
        for name in ("started_at", "detected_at")
    )
    assert found["updated_at"] > found["started_at"]
    for job_id in (spent, never):
        found = row(earlier, job_id)
        assert (found["status"], found["error_code"]) == ("failed", "TIMEOUT_MAX_RETRIES")
    for job_id in (young, str(unstarted)):
        assert (row(earlier, job_id)["status"], row(earlier, job_id)["error_code"]) == ("generating", None)
    assert [tuple(one) for one in fetch(earlier, CHECK)] == [(0, [])]
    execute(earlier, "DELETE FROM public.reading_jobs WHERE question IS NULL")
    assert fetch(earlier, ROWS) == before


def test_the_message_is_filled_where_there_is_a_column_for_it(earlier: str) -> None:
    """A table that has `error` gets the message there, with whether a retry is left."""
    execute(earlier, "ALTER TABLE public.reading_jobs ADD COLUMN error text")
    adopt(earlier)
    again, spent = overdue(earlier), overdue(earlier, retry_count=3)
    fetch(earlier, CHECK)
    assert row(earlier, again)["error"] == "Generating took longer than 120 seconds"
    assert row(earlier, spent)["error"] == "Generating took longer than 120 seconds, and no retry is left"
    assert "nothing to do" in adopt(earlier).stdout


def test_two_calls_take_each_row_once(earlier: str) -> None:
    """Neither waits for the other, nor for a row that somebody else has in hand."""
    adopt(earlier)
    held, free = overdue(earlier), overdue(earlier)

    async def run() -> None:
        async with connected(earlier) as first, connected(earlier) as second, connected(earlier) as other:
            async with other.transaction():
                await other.execute("SELECT FROM public.reading_jobs WHERE id = $1 FOR UPDATE", held)
                async with first.transaction():
                    count, ids = await asyncio.wait_for(first.fetchrow(CHECK), 60)
                    assert (count, [str(one) for one in ids]) == (1, [free])
                    assert tuple(await asyncio.wait_for(second.fetchrow(CHECK), 60)) == (0, [])
            count, ids = await second.fetchrow(CHECK)
            assert (count, [str(one) for one in ids]) == (1, [held])

    asyncio.run(run())


@asynccontextmanager
async def connected(url: str) -> Any:
    """A connection past the store."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def test_the_index_finds_them(earlier: str) -> None:
    """The function's question can be answered from the index that is there for it."""
    adopt(earlier)
    execute(
        earlier,
        "INSERT INTO public.reading_jobs (status, started_at) SELECT 'done', now() FROM generate_series(1, 5000)",
        "ANALYZE public.reading_jobs",
    )
    plan = fetch(
        earlier,
        "EXPLAIN SELECT id FROM public.reading_jobs WHERE status = 'generating' AND started_at IS NOT NULL "
        "AND started_at < now() - interval '120 s'",
    )
    assert any("idx_reading_jobs_timeout_detection" in line[0] for line in plan), plan


# -- beside the store --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["migrate", "adopt"])
def test_the_store_in_the_same_database(earlier: str, first: str) -> None:
    """Whichever comes first, and however often Langlauf starts: the function works on the adopted table."""
    for step in (migrate, adopt) if first == "migrate" else (adopt, migrate):
        step(earlier)
    before = facts(earlier)
    migrate(earlier)
    assert "nothing to do" in adopt(earlier).stdout
    assert facts(earlier) == before
    job = overdue(earlier)
    assert [tuple(one) for one in fetch(earlier, "SELECT * FROM check_job_timeouts()")] == [(0, [])]
    [[count, ids]] = fetch(earlier, CHECK)
    assert (count, [str(one) for one in ids]) == (1, [job])


# -- locks -------------------------------------------------------------------------------------------------------------


def test_a_table_in_use_is_waited_for(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait is short, so that others get through; it is tried again until the table is free."""
    monkeypatch.setattr(adopting, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(adopting, "PAUSE_SECONDS", 0.05)

    async def run() -> None:
        async with connected(earlier) as other, connected(earlier) as reader:
            busy = other.transaction()
            await busy.start()
            await other.execute("UPDATE public.reading_jobs SET question = 'in hand'")
            doing = asyncio.create_task(adopting.adopt_reading_jobs(earlier))
            for _ in range(5):
                assert await asyncio.wait_for(reader.fetchval("SELECT count(*) FROM public.reading_jobs"), 60) == 50
                await asyncio.sleep(0.1)
            assert not doing.done()
            await busy.commit()
            assert len((await doing).steps) > 10

    asyncio.run(run())
    assert "nothing to do" in adopt(earlier).stdout


def test_a_table_that_stays_in_use(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end it is given up, and nothing was changed."""
    monkeypatch.setattr(adopting, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(adopting, "PATIENCE_SECONDS", 0.5)
    before = facts(earlier)

    async def run() -> None:
        async with connected(earlier) as other, other.transaction():
            await other.execute("LOCK TABLE public.reading_jobs IN SHARE MODE")
            with pytest.raises(CannotAdopt, match="others have held it"):
                await adopting.adopt_reading_jobs(earlier)

    asyncio.run(run())
    assert facts(earlier) == before


def test_two_adopt_at_once(earlier: str) -> None:
    """One does it, the other finds nothing left to do."""

    async def run() -> None:
        done = await asyncio.gather(*(adopting.adopt_reading_jobs(earlier) for _ in range(2)))
        assert sorted(bool(one.steps) for one in done) == [False, True]

    asyncio.run(run())


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A server of these tests' own, with the roles of callers, a keeper of the table and a login of each kind."""
    with own_server() as server:
        execute(
            server.url(),
            *(f"CREATE ROLE {name}" for name in ("anon", "authenticated", "service_role", "stranger")),
            "CREATE ROLE keeper LOGIN",
            "CREATE ROLE reader LOGIN IN ROLE authenticated",
            "CREATE ROLE servant LOGIN IN ROLE service_role",
        )
        yield server.url()


def called_by(url: str, role: str) -> tuple[int, int]:
    """How many jobs a caller is told of, and how many by name."""

    async def run() -> tuple[int, int]:
        async with connected(url) as connection:
            await connection.execute(f"SET ROLE {role}")
            count, ids = await connection.fetchrow(CHECK)
            return count, len(ids)

    return asyncio.run(run())


@pytest.mark.parametrize("by", ["postgres", "keeper"])
def test_who_may_call_it(cluster: str, by: str) -> None:
    """Callers of the document and nobody else, also where the database gives everything away; ids for the trusted."""
    with fresh_database(server=cluster) as url:
        execute(
            url, EARLIER, "GRANT CREATE ON SCHEMA public TO keeper", "ALTER TABLE public.reading_jobs OWNER TO keeper"
        )
        execute(url, "ALTER TABLE public.reading_jobs ENABLE ROW LEVEL SECURITY")
        execute(url, f"ALTER DEFAULT PRIVILEGES FOR ROLE {by} GRANT ALL ON FUNCTIONS TO anon")
        name = url.rpartition("/")[2]
        adopt(address(url, name, by))
        assert "nothing to do" in adopt(address(url, name, by)).stdout
        assert fetch(url, "SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'check_reading_timeouts'") == [
            ("keeper",)
        ]
        for role in ("anon", "stranger"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                called_by(url, role)
        for role, shown in (("authenticated", 0), ("service_role", 1), ("keeper", 1), ("postgres", 1)):
            overdue(url)
            assert called_by(url, role) == (1, shown), role
        for login, shown in (("reader", 0), ("servant", 1)):
            overdue(url)
            [[count, ids]] = fetch(address(url, name, login), CHECK)
            assert (count, len(ids)) == (1, shown), login


def test_roles_may_be_missing(earlier: str) -> None:
    """Where there are no such roles, the owner alone may call it."""
    done = json.loads(adopt(earlier, "--json").stdout)
    assert not [change for change in done["changes"] if change.endswith("may call it") and "nobody" not in change]
    assert fetch(earlier, "SELECT proacl::text FROM pg_proc WHERE proname = 'check_reading_timeouts'") == [
        ("{postgres=X/postgres}",)
    ]


def test_whoever_may_not_change_the_table(cluster: str) -> None:
    """The database's own words say why, and nothing was changed."""
    with fresh_database(server=cluster) as url:
        execute(url, EARLIER)
        before = facts(url)
        refused = adopt(address(url, url.rpartition("/")[2], "reader"), exit_code=1)
        assert "permission denied for table reading_jobs" in refused.stderr
        assert facts(url) == before
