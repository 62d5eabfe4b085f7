"""Migrations: once, with concurrent starts; all or nothing; never by an older program."""

import asyncio
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from langlauf.domain.errors import SchemaTooNew
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.migrate import PACKAGE, applied_migrations, functions_in, migrate
from langlauf.store.sql import Migration, migrations_in
from tests.postgres.isolation import let_in
from tests.postgres.schema_dump import dump
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database

KNOWN = migrations_in(PACKAGE)
FUNCTIONS = functions_in()
#: The names that a run on an empty database returns.
ALL = [*(f"{step.number:04d}_{step.name}" for step in KNOWN), "functions"]
_LATER_TABLE = "CREATE TABLE later (org_id text NOT NULL, words text)"
_LATER = """
CREATE FUNCTION read_later(org text) RETURNS SETOF later LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY SELECT * FROM later;
END $$;
CREATE FUNCTION read_keeping(org text, said_words text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO later VALUES (org, said_words)
$$;
"""


def apply(url: str, known: list[Migration], functions: list[Migration] | None = None) -> list[str]:
    """Migrate a database with these migrations and functions."""

    async def main() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            return await migrate(connection, known, functions)
        finally:
            await connection.close()

    return asyncio.run(main())


def later(sql: str, name: str = "later") -> list[Migration]:
    """Return the migrations of a later version."""
    return [*KNOWN, Migration(len(KNOWN) + 1, name, sql)]


def more(sql: str) -> list[Migration]:
    """Return the functions of a later version."""
    return [*FUNCTIONS, Migration(99, "more", sql)]


def test_ten_hosts_start_at_once(database: str) -> None:
    """One of them does all of it, the others wait and find it done."""

    async def race() -> list[list[str]]:
        connections = [await asyncpg.connect(database) for _ in range(10)]
        try:
            return await asyncio.gather(*(migrate(connection) for connection in connections))
        finally:
            await asyncio.gather(*(connection.close() for connection in connections))

    done = sorted(asyncio.run(race()), key=len)
    assert done == [[]] * 9 + [ALL]


def test_an_older_program_leaves_a_newer_schema_alone(database: str) -> None:
    """It says so, also when a store is opened, and changes nothing."""
    apply(database, KNOWN)
    execute(database, f"INSERT INTO langlauf.migrations (number, name) VALUES ({len(KNOWN) + 1}, 'newer')")
    with pytest.raises(SchemaTooNew, match="start the newer program"):
        apply(database, KNOWN)

    async def open_it() -> Any:
        return await PostgresStore.open(database, hints=Hints())

    with pytest.raises(SchemaTooNew):
        asyncio.run(open_it())


@pytest.mark.parametrize("fault", ["SELECT 1 / 0", "CREATE VIEW leaky AS SELECT * FROM jobs"])
def test_a_failed_migration_is_rolled_back(database: str, fault: str) -> None:
    """A step that fails, or a view that would bypass row-level security, rolls back the whole run."""
    with pytest.raises(asyncpg.PostgresError):
        apply(database, KNOWN, more(fault))
    assert fetch(database, "SELECT FROM pg_namespace WHERE nspname = 'langlauf'") == []
    apply(database, KNOWN)
    with pytest.raises(asyncpg.PostgresError):
        apply(database, later("CREATE TABLE begun (a int)"), more(fault))
    assert fetch(database, "SELECT to_regclass('langlauf.begun') AS begun")[0]["begun"] is None
    assert apply(database, KNOWN) == []


def test_later_objects_are_guarded(database: str) -> None:
    """Its tables have their policies, its functions their role and search_path, and logins may call them."""
    apply(database, KNOWN)
    app = let_in(database, "langlauf_later")
    assert apply(database, later(_LATER_TABLE), more(_LATER)) == [f"{len(KNOWN) + 1:04d}_later", "functions"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):  # reads for one org cannot write
        execute(app, "SELECT langlauf.read_keeping('org-a', 'one')")
    execute(database, "INSERT INTO langlauf.later VALUES ('org-a', 'one'), ('org-b', 'two')")
    assert [tuple(row) for row in fetch(app, "SELECT * FROM langlauf.read_later('org-b')")] == [("org-b", "two")]


def test_functions_are_replaced_as_a_whole(database: str) -> None:
    """New functions exist and are guarded, removed ones are gone; a repeat changes nothing."""
    assert apply(database, KNOWN) == ALL
    app = let_in(database, "langlauf_later")
    tidy = "CREATE OR REPLACE FUNCTION tidy(at bigint) RETURNS void LANGUAGE sql AS 'SELECT 1 FROM lanes LIMIT 1'"
    changed = more(f"{tidy}; CREATE FUNCTION brought() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    assert apply(database, KNOWN, changed) == ["functions"]
    assert apply(database, KNOWN, changed) == []
    execute(app, "SELECT langlauf.tidy(NULL)")
    assert apply(database, KNOWN) == ["functions"]
    assert fetch(database, "SELECT to_regprocedure('langlauf.brought()') IS NULL") == [(True,)]
    [(kept,)] = fetch(database, "SELECT prosrc LIKE '%DELETE%' FROM pg_proc WHERE proname = 'tidy'")
    assert kept


def test_views_of_others_survive_new_functions(database: str) -> None:
    """A view of others over the legacy view is not dropped."""
    apply(database, KNOWN)
    execute(database, "CREATE VIEW public.theirs AS SELECT id, status FROM public.reading_jobs")
    assert apply(database, KNOWN, more("SELECT 1")) == ["functions"]
    assert fetch(database, "SELECT * FROM public.theirs") == []


def test_no_function_is_defined_twice() -> None:
    """Each rule is in one place."""
    names = re.findall(
        r"^CREATE (?:OR REPLACE )?FUNCTION ([\w.]+)", "\n".join(step.sql for step in FUNCTIONS), re.MULTILINE
    )
    assert len(names) > 100
    assert [name for name in names if names.count(name) > 1] == []


def test_the_schema_matches_its_dump(database: str) -> None:
    """A change of a table or an index shows in the diff of `schema.txt`."""
    apply(database, KNOWN)
    written = Path(__file__).with_name("schema.txt").read_text("utf-8")
    assert dump(database) == written, "run python -m tests.postgres.schema_dump > tests/postgres/schema.txt"


def test_hot_tables_are_vacuumed_by_row_count(database: str) -> None:
    """Autovacuum starts after a number of dead rows, not after a share of a table that holds years of jobs."""
    apply(database, KNOWN)
    rows = fetch(
        database,
        """SELECT relname FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r'
        AND '{autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_cost_delay=0}' <@ reloptions""",
    )
    hot = {
        "job_rows",
        "lanes",
        "lane_clock",
        "waiting_counts",
        "batches",
        "event_rows",
        "result_rows",
        "outbox",
    }
    assert hot <= {row["relname"] for row in rows}


async def _schema(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return await applied_migrations(connection)
    finally:
        await connection.close()


def test_an_empty_database_has_schema_0(database: str) -> None:
    """And a migrated one has the number of its last step."""
    assert asyncio.run(_schema(database)) == 0
    apply(database, KNOWN)
    assert asyncio.run(_schema(database)) == len(KNOWN)


def test_remains_of_a_dropped_schema_are_replaced() -> None:
    """Functions in `public` outlive the schema; the next start replaces them, and the view is complete again."""
    with migrated_database() as url:
        execute(url, "DROP SCHEMA langlauf CASCADE")
        assert fetch(url, "SELECT to_regprocedure('public.check_job_timeouts()') IS NOT NULL") == [(True,)]
        assert apply(url, KNOWN) == ALL
        assert [tuple(row) for row in fetch(url, "SELECT * FROM check_reading_timeouts()")] == [(0, [])]
        assert fetch(url, "SELECT error, error_meta FROM reading_jobs") == []
