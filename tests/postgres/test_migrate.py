"""Migrations: once, whoever starts at the same moment; all or nothing; never by an older program."""

import asyncio
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from langlauf.domain.errors import SchemaTooNew
from langlauf.hints import Hints
from langlauf.store.migrate import Migration, migrations_in
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.migrate import PACKAGE, applied_migrations, functions_in, migrate
from tests.postgres.isolation import let_in
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database

KNOWN = migrations_in(PACKAGE)
FUNCTIONS = functions_in()
#: What a run says that it did, where nothing was there.
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
    """Brings a database to what a program with these migrations and functions knows."""

    async def main() -> list[str]:
        connection = await asyncpg.connect(url)
        try:
            return await migrate(connection, known, functions)
        finally:
            await connection.close()

    return asyncio.run(main())


def later(sql: str, name: str = "later") -> list[Migration]:
    """What a later version of the program knows."""
    return [*KNOWN, Migration(len(KNOWN) + 1, name, sql)]


def more(sql: str) -> list[Migration]:
    """The functions of a later version of the program."""
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
        apply(database, KNOWN, more(fault))
    assert fetch(database, "SELECT FROM pg_namespace WHERE nspname = 'langlauf'") == []
    apply(database, KNOWN)
    with pytest.raises(asyncpg.PostgresError):
        apply(database, later("CREATE TABLE begun (a int)"), more(fault))
    assert fetch(database, "SELECT to_regclass('langlauf.begun') AS begun")[0]["begun"] is None
    assert apply(database, KNOWN) == []


def test_what_a_later_step_brings_is_guarded_too(database: str) -> None:
    """Its tables have their policies, its functions their role and path, and logins that were let in may call them."""
    apply(database, KNOWN)
    app = let_in(database, "langlauf_later")
    assert apply(database, later(_LATER_TABLE), more(_LATER)) == [f"{len(KNOWN) + 1:04d}_later", "functions"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):  # what reads for one org cannot write
        execute(app, "SELECT langlauf.read_keeping('org-a', 'one')")
    execute(database, "INSERT INTO langlauf.later VALUES ('org-a', 'one'), ('org-b', 'two')")
    assert [tuple(row) for row in fetch(app, "SELECT * FROM langlauf.read_later('org-b')")] == [("org-b", "two")]


def test_functions_are_replaced_as_a_whole(database: str) -> None:
    """What a version brings is there and guarded, what it no longer has is gone; the same again changes nothing."""
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


def test_what_others_made_of_ours_outlives_new_functions(database: str) -> None:
    """A view of theirs over the one for earlier callers is not taken away."""
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


def test_the_schema_is_what_was_written_down(database: str) -> None:
    """A change of a table or an index is seen by whoever reads the change: `schema.txt` says all."""
    apply(database, KNOWN)
    rows = fetch(
        database,
        """SELECT kind || ' ' || name || ': ' || definition AS line FROM langlauf.schema_objects
        WHERE kind IN ('table', 'constraint', 'index', 'trigger', 'policy') OR (kind = 'column' AND EXISTS (
            SELECT FROM pg_class WHERE oid = ('langlauf.' || split_part(name, '.', 1))::regclass AND relkind = 'r'))
        ORDER BY kind, name COLLATE "C" """,
    )
    found = "\n".join(row["line"] for row in rows) + "\n"
    written = Path(__file__).with_name("schema.txt").read_text("utf-8")
    assert found == written, "where this was meant, schema.txt is to say the same"


def test_hot_tables_are_looked_after_by_number(database: str) -> None:
    """Dead rows are cleared after so many of them, not after a share of a table that holds years of jobs."""
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
        assert apply(url, KNOWN) == ALL
        assert [tuple(row) for row in fetch(url, "SELECT * FROM check_reading_timeouts()")] == [(0, [])]
        assert fetch(url, "SELECT error, error_meta FROM reading_jobs") == []
