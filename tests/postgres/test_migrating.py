"""Migrations: once, whoever starts at the same moment; all or nothing; never by an older program."""

import asyncio
from typing import Any

import asyncpg
import pytest

from langlauf.domain.errors import SchemaTooNew
from langlauf.hints import Hints
from langlauf.store.migrate import Migration, migrations_in
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.migrating import PACKAGE, applied_migrations, migrate
from tests.postgres.isolation import let_in
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database

KNOWN = migrations_in(PACKAGE)
_LATER = """
CREATE TABLE later (org_id text NOT NULL, words text);
CREATE FUNCTION read_later(org text) RETURNS SETOF later LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY SELECT * FROM later;
END $$;
CREATE FUNCTION keep_later(org text, said_words text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO later VALUES (org, said_words)
$$;
"""


def apply(url: str, known: list[Migration]) -> list[str]:
    """Brings a database to what a program with these migrations knows."""

    async def main() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            return await migrate(connection, known)
        finally:
            await connection.close()

    return asyncio.run(main())


def later(sql: str, name: str = "later") -> list[Migration]:
    """What a later version of the program knows."""
    return [*KNOWN, Migration(len(KNOWN) + 1, name, sql)]


def test_ten_hosts_start_at_once(database: str) -> None:
    """One of them does all of it, the others wait and find it done."""

    async def race() -> list[list[str]]:
        connections = [await asyncpg.connect(database) for _ in range(10)]
        try:
            return await asyncio.gather(*(migrate(connection) for connection in connections))
        finally:
            await asyncio.gather(*(connection.close() for connection in connections))

    done = sorted(asyncio.run(race()), key=len)
    assert done == [[]] * 9 + [[f"{step.number:04d}_{step.name}" for step in KNOWN]]


def test_an_older_program_leaves_a_newer_schema_alone(database: str) -> None:
    """It says so, at the start of a store too, and changes nothing."""
    apply(database, KNOWN)
    execute(database, f"INSERT INTO langlauf.migrations (number, name) VALUES ({len(KNOWN) + 1}, 'newer')")
    with pytest.raises(SchemaTooNew, match="start the newer program"):
        apply(database, KNOWN)

    async def open_it() -> Any:
        return await PostgresStore.open(database, hints=Hints())

    with pytest.raises(SchemaTooNew):
        asyncio.run(open_it())


@pytest.mark.parametrize("fault", ["SELECT 1 / 0", "CREATE VIEW leaky AS SELECT * FROM jobs"])
def test_a_schema_is_never_half_made(database: str, fault: str) -> None:
    """A step that fails, or that would show what its reader may not see, takes all others of its run along."""
    with pytest.raises(asyncpg.PostgresError):
        apply(database, later(fault))
    assert fetch(database, "SELECT FROM pg_namespace WHERE nspname = 'langlauf'") == []
    apply(database, KNOWN)
    with pytest.raises(asyncpg.PostgresError):
        apply(database, later(f"CREATE TABLE begun (a int); {fault}"))
    assert fetch(database, "SELECT to_regclass('langlauf.begun') AS begun")[0]["begun"] is None
    assert apply(database, KNOWN) == []


def test_what_a_later_step_brings_is_guarded_too(database: str) -> None:
    """Its tables have their policies, its functions their role and path, and logins that were let in may call them."""
    apply(database, KNOWN)
    app = let_in(database, "langlauf_later")
    assert apply(database, later(_LATER, "reading")) == [f"{len(KNOWN) + 1:04d}_reading"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):  # what reads for one org cannot write
        execute(app, "SELECT langlauf.keep_later('org-a', 'one')")
    execute(database, "INSERT INTO langlauf.later VALUES ('org-a', 'one'), ('org-b', 'two')")
    assert [tuple(row) for row in fetch(app, "SELECT * FROM langlauf.read_later('org-b')")] == [("org-b", "two")]


def test_a_function_that_is_replaced_stays_guarded(database: str) -> None:
    """Replacing one makes it run as its caller: the end of the run puts that right."""
    apply(database, KNOWN)
    app = let_in(database, "langlauf_later")
    sql = fetch(database, "SELECT pg_get_functiondef('langlauf.tidy(bigint)'::regprocedure) AS sql")[0]["sql"]
    plain = sql.replace("SECURITY DEFINER", "").replace("SET search_path TO 'langlauf', 'pg_temp'", "")
    assert plain != sql
    apply(database, later(plain))
    execute(app, "SELECT langlauf.tidy(NULL)")


def test_hot_tables_are_looked_after_by_number(database: str) -> None:
    """Dead rows are cleared after so many of them, not after a share of a table that holds years of jobs."""
    apply(database, KNOWN)
    rows = fetch(
        database,
        """SELECT relname FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r'
        AND '{autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_cost_delay=0}' <@ reloptions""",
    )
    hot = {
        "jobs",
        "leases",
        "lanes",
        "lane_clock",
        "waiting_counts",
        "batches",
        "job_events",
        "job_inputs",
        "job_results",
    }
    assert hot <= {row["relname"] for row in rows}


async def _schema(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return await applied_migrations(connection)
    finally:
        await connection.close()


def test_an_empty_database_has_schema_nothing(database: str) -> None:
    """And a migrated one the number of its last step."""
    assert asyncio.run(_schema(database)) == 0
    apply(database, KNOWN)
    assert asyncio.run(_schema(database)) == len(KNOWN)


def test_what_a_dropped_schema_left_is_taken_over() -> None:
    """Functions in `public` outlive the schema; the next start works beside them, and the view is whole again."""
    with migrated_database() as url:
        execute(url, "DROP SCHEMA langlauf CASCADE")
        assert fetch(url, "SELECT to_regprocedure('public.check_job_timeouts()') IS NOT NULL") == [(True,)]
        assert len(apply(url, KNOWN)) == len(KNOWN)
        assert [tuple(row) for row in fetch(url, "SELECT * FROM check_reading_timeouts()")] == [(0, [])]
        assert fetch(url, "SELECT error, error_meta FROM reading_jobs") == []
