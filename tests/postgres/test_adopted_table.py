"""The adopted table of a legacy system: its function, the store beside it, locks, and rights."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from langlauf.compat import adopt as adopting
from langlauf.compat.adopt import CannotAdopt
from tests.postgres.adopted_table import CHECK, EARLIER, ROWS, adopt, facts, migrate
from tests.support.postgres import address, execute, fetch, fresh_database, own_server

# -- the function ------------------------------------------------------------------------------------------------------


def overdue(url: str, seconds: int = 121, **values: object) -> str:
    """Insert a row that has been generating for so long by the database's clock; return its id."""
    columns = ", ".join(("status", "started_at", *values))
    given = ", ".join(("'generating'", f"now() - interval '{seconds} s'", *map(str, values.values())))
    [[found]] = fetch(url, f"INSERT INTO public.reading_jobs ({columns}) VALUES ({given}) RETURNING id")
    return str(found)


def row(url: str, job_id: str) -> Any:
    """Return one row of the table."""
    [found] = fetch(url, "SELECT * FROM public.reading_jobs WHERE id = $1", job_id)
    return found


def test_overdue_rows_are_found(earlier: str) -> None:
    """Over 120 seconds, with or without retries left; younger rows, rows without a start or in another state stay."""
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


def test_the_error_column_gets_the_message(earlier: str) -> None:
    """A table with a column `error` gets the message, and whether a retry is left."""
    execute(earlier, "ALTER TABLE public.reading_jobs ADD COLUMN error text")
    adopt(earlier)
    again, spent = overdue(earlier), overdue(earlier, retry_count=3)
    fetch(earlier, CHECK)
    assert row(earlier, again)["error"] == "Generating took longer than 120 seconds"
    assert row(earlier, spent)["error"] == "Generating took longer than 120 seconds, and no retry is left"
    assert "nothing to do" in adopt(earlier).stdout


def test_concurrent_calls_take_each_row_once(earlier: str) -> None:
    """Neither waits for the other, nor for a row that is locked."""
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


def test_the_index_is_used(earlier: str) -> None:
    """The planner uses the index for the query of the function."""
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
def test_the_store_works_in_the_same_database(earlier: str, first: str) -> None:
    """In either order, and after any number of starts, the function works on the adopted table."""
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


def test_a_locked_table_is_retried(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lock wait is short, so that others get through; it is retried until the table is free."""
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


def test_a_table_that_stays_locked_is_given_up(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end it gives up, and nothing was changed."""
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


def test_concurrent_adoptions(earlier: str) -> None:
    """One does it, the other finds nothing left to do."""

    async def run() -> None:
        done = await asyncio.gather(*(adopting.adopt_reading_jobs(earlier) for _ in range(2)))
        assert sorted(bool(one.steps) for one in done) == [False, True]

    asyncio.run(run())


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A server with the roles of callers, an owner of the table and a login of each kind."""
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
    """Return how many jobs a caller is told of, and how many by id."""

    async def run() -> tuple[int, int]:
        async with connected(url) as connection:
            await connection.execute(f"SET ROLE {role}")
            count, ids = await connection.fetchrow(CHECK)
            return count, len(ids)

    return asyncio.run(run())


@pytest.mark.parametrize("by", ["postgres", "keeper"])
def test_only_documented_roles_may_call(cluster: str, by: str) -> None:
    """Only documented callers, also if the database grants everything; ids only for trusted roles."""
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


def test_without_roles_only_the_owner_may_call(earlier: str) -> None:
    """Without such roles, only the owner may call it."""
    done = json.loads(adopt(earlier, "--json").stdout)
    assert not [
        change for change in done["changes"] if change.endswith("may call it") and "no other role" not in change
    ]
    assert fetch(earlier, "SELECT proacl::text FROM pg_proc WHERE proname = 'check_reading_timeouts'") == [
        ("{postgres=X/postgres}",)
    ]


def test_a_login_that_may_not_change_the_table_is_refused(cluster: str) -> None:
    """The database's message says why, and nothing was changed."""
    with fresh_database(server=cluster) as url:
        execute(url, EARLIER)
        before = facts(url)
        refused = adopt(address(url, url.rpartition("/")[2], "reader"), exit_code=1)
        assert "permission denied for table reading_jobs" in refused.stderr
        assert facts(url) == before
