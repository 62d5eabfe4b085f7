"""`langlauf adopt reading_jobs`: the table of a legacy system gets failure handling, and loses nothing."""

import json
import re
import shutil
import subprocess

import pytest

from tests.postgres.adopted_table import CHECK, EARLIER, RESULT, ROWS, adopt, facts, migrate
from tests.support.postgres import execute, fetch, fresh_database


def test_the_table_gets_what_the_document_says(earlier: str) -> None:
    """Seven columns, three constraints, three indexes and the function; the old columns do not change."""
    before = fetch(earlier, ROWS)
    assert "nothing to do" not in adopt(earlier).stdout
    columns = fetch(
        earlier,
        "SELECT column_name || ' ' || data_type || coalesce('(' || character_maximum_length || ')', '') || ' ' || "
        "is_nullable || ' ' || coalesce(column_default, '-') FROM information_schema.columns "
        "WHERE table_name = 'reading_jobs' ORDER BY ordinal_position OFFSET 6",
    )
    assert [row[0] for row in columns] == [
        "started_at timestamp with time zone YES -",
        "retry_count integer NO 0",
        "max_retries integer NO 3",
        "last_retry_at timestamp with time zone YES -",
        "retry_reason text YES -",
        "error_code character varying(50) YES -",
        "error_meta jsonb YES -",
    ]
    checks = fetch(
        earlier,
        "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'public.reading_jobs'::regclass AND contype = 'c' ORDER BY conname",
    )
    words = "'pending'::text, 'processing'::text, 'generating'::text, 'completed'::text, 'done'::text, 'failed'::text"
    assert [tuple(row) for row in checks] == [
        ("job states", f"CHECK ((status = ANY (ARRAY[{words}, 'timeout'::text, 'cancelled'::text])))"),
        ("reading_jobs_max_retries_check", "CHECK ((max_retries >= 0))"),
        ("reading_jobs_retry_count_check", "CHECK ((retry_count >= 0))"),
    ]
    indexes = fetch(
        earlier, "SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'idx_reading_jobs_%' ORDER BY indexname"
    )
    assert [re.sub(".* ON public.reading_jobs USING btree ", "", row[0]) for row in indexes] == [
        "(error_code) WHERE (error_code IS NOT NULL)",
        "(status, retry_count, max_retries) WHERE (status = ANY (ARRAY['failed'::text, 'timeout'::text]))",
        "(status, started_at) WHERE ((status = 'generating'::text) AND (started_at IS NOT NULL))",
    ]
    assert fetch(earlier, ROWS) == before
    assert fetch(earlier, "SELECT DISTINCT retry_count, max_retries FROM public.reading_jobs") == [(0, 3)]
    assert [tuple(row) for row in fetch(earlier, CHECK)] == [(0, [])]


def test_columns_and_the_function_say_what_they_are(earlier: str) -> None:
    """Added objects have comments, and existing comments stay."""
    execute(earlier, "ALTER TABLE public.reading_jobs ADD COLUMN retry_reason text")
    execute(earlier, "COMMENT ON COLUMN public.reading_jobs.retry_reason IS 'own words'")
    adopt(earlier)
    rows = fetch(
        earlier,
        "SELECT attname::text, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = 'public.reading_jobs'::regclass AND attnum > 6",
    )
    found = {row[0]: row[1] for row in rows}
    assert len(found) == 7
    assert all(found.values())
    assert found["retry_reason"] == "own words"
    [[about]] = fetch(earlier, "SELECT obj_description('public.check_reading_timeouts()'::regprocedure, 'pg_proc')")
    assert about.startswith("Langlauf: ")
    execute(earlier, "COMMENT ON COLUMN public.reading_jobs.error_code IS NULL")
    assert json.loads(adopt(earlier, "--json").stdout)["changes"] == ["comment on error_code"]


def test_views_without_the_new_columns_are_listed(earlier: str) -> None:
    """A view of all columns does not get new ones; one with a column list is complete."""
    execute(
        earlier,
        "CREATE VIEW public.everything AS SELECT * FROM public.reading_jobs WHERE status <> 'cancelled'",
        "CREATE VIEW public.chosen AS SELECT id, status FROM public.reading_jobs",
        'CREATE MATERIALIZED VIEW public."All of it" AS SELECT * FROM public.reading_jobs',
    )
    done = adopt(earlier)
    assert "public.everything was created before the columns" in done.stderr
    found = json.loads(adopt(earlier, "--json").stdout)["views"]
    assert found == ['public."All of it"', "public.everything"]
    execute(
        earlier,
        "CREATE OR REPLACE VIEW public.everything AS SELECT * FROM public.reading_jobs WHERE status <> 'cancelled'",
    )
    assert json.loads(adopt(earlier, "--dry-run", "--json").stdout)["views"] == ['public."All of it"']


def test_a_second_run_changes_nothing(earlier: str) -> None:
    """No row of the catalog is written again, and the output says so."""
    adopt(earlier)
    before = facts(earlier)
    assert "nothing to do" in adopt(earlier).stdout
    assert json.loads(adopt(earlier, "--json").stdout)["changes"] == []
    assert facts(earlier) == before


def test_a_dry_run_prints_what_the_real_one_does(earlier: str) -> None:
    """It changes nothing; its output can be run by hand, and nothing is left to do then."""
    before = facts(earlier)
    script = adopt(earlier, "--dry-run").stdout
    planned = json.loads(adopt(earlier, "--dry-run", "--json").stdout)
    assert facts(earlier) == before
    assert planned["dry_run"] is True
    psql = shutil.which("psql")
    if psql is None:
        execute(earlier, script)
    else:
        subprocess.run([psql, "-v", "ON_ERROR_STOP=1", "-q", earlier], input=script, text=True, check=True)
    assert json.loads(adopt(earlier, "--json").stdout) == {
        "table": "public.reading_jobs",
        "dry_run": False,
        "changes": [],
        "sql": [],
        "views": [],
    }
    with fresh_database(server=earlier) as other:
        execute(other, EARLIER)
        assert json.loads(adopt(other, "--json").stdout) == planned | {"dry_run": False}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD COLUMN started_at timestamp", "column started_at is timestamp without time zone"),
        ("ADD COLUMN retry_count bigint", "column retry_count is bigint, not integer"),
        ("ADD COLUMN error_code text", "column error_code is text, not character varying(50)"),
        ("ADD COLUMN error_meta json", "column error_meta is json, not jsonb"),
        ("ADD COLUMN retry_count integer GENERATED ALWAYS AS (1) STORED", "column retry_count is integer"),
        ("DROP COLUMN id", "no column id"),
        ("DROP COLUMN id, ADD COLUMN id bigint", "column id is bigint, not uuid"),
        ("DROP COLUMN status", "no column status"),
        (
            'DROP CONSTRAINT "job states", ALTER status TYPE varchar(9) USING left(status, 9)',
            "column status is character varying(9)",
        ),
        ('DROP CONSTRAINT "job states", ADD CHECK (length(status) > 3)', "constraint reading_jobs_status_check says"),
        ("ADD CONSTRAINT odd CHECK (status IN ('pending', 'archived'))", "constraint odd says"),
        ("ADD CONSTRAINT reading_jobs_max_retries_check CHECK (question <> '')", "reading_jobs_max_retries_check says"),
        ("FORCE ROW LEVEL SECURITY, OWNER TO pg_monitor", "row-level security"),
    ],
)
def test_obstacles_are_named(earlier: str, change: str, said: str) -> None:
    """A table of another kind is refused with the reason, and does not change."""
    if "odd" in change:
        execute(earlier, 'ALTER TABLE public.reading_jobs DROP CONSTRAINT "job states"')
        execute(earlier, "DELETE FROM public.reading_jobs WHERE status <> 'pending'")
    execute(
        earlier, "CREATE TABLE kept AS SELECT id FROM public.reading_jobs", f"ALTER TABLE public.reading_jobs {change}"
    )
    before = facts(earlier)
    for flags in ((), ("--dry-run",)):
        done = adopt(earlier, *flags, exit_code=1)
        assert said in done.stderr
        assert "was not changed" in done.stderr
        assert done.stdout == ""
    assert facts(earlier) == before


def test_unknown_states_are_refused(earlier: str) -> None:
    """Rows with other words leave the table as it is, and are named."""
    execute(
        earlier,
        'ALTER TABLE public.reading_jobs DROP CONSTRAINT "job states"',
        "INSERT INTO public.reading_jobs (status) VALUES ('archived'), ('paused')",
    )
    before = facts(earlier)
    assert "'archived', 'paused'" in adopt(earlier, exit_code=1).stderr
    assert facts(earlier) == before


def test_another_index_of_that_name_is_refused(earlier: str) -> None:
    """It is refused by name; the right one, created by hand, is kept."""
    adopt(earlier)
    execute(
        earlier,
        "DROP INDEX public.idx_reading_jobs_error_code",
        "CREATE INDEX idx_reading_jobs_error_code ON public.reading_jobs (error_code)",
    )
    assert "another idx_reading_jobs_error_code" in adopt(earlier, exit_code=1).stderr


def test_a_partial_adoption_is_completed(earlier: str) -> None:
    """Columns without default and with nulls, some of the indexes, a documented function: all is completed."""
    execute(
        earlier,
        "ALTER TABLE public.reading_jobs ADD COLUMN retry_count integer, ADD COLUMN max_retries integer DEFAULT 5, "
        "ADD COLUMN error_code varchar(50), ADD CONSTRAINT not_below CHECK (retry_count >= 0)",
        "ALTER TABLE public.reading_jobs DISABLE TRIGGER touches",
        "UPDATE public.reading_jobs SET max_retries = NULL WHERE status = 'pending'",
        "ALTER TABLE public.reading_jobs ENABLE TRIGGER touches",
        "CREATE INDEX idx_reading_jobs_error_code ON public.reading_jobs (error_code) WHERE error_code IS NOT NULL",
        f"CREATE FUNCTION public.check_reading_timeouts() {RESULT} STABLE LANGUAGE sql AS 'SELECT 0, NULL::uuid[]'",
    )
    before = fetch(earlier, ROWS)
    adopt(earlier)
    assert fetch(earlier, ROWS) == before
    asked = "SELECT DISTINCT retry_count, max_retries, status = 'pending' FROM public.reading_jobs ORDER BY 2"
    assert fetch(earlier, asked) == [(0, 3, True), (0, 5, False)]
    execute(earlier, "INSERT INTO public.reading_jobs (status) VALUES ('timeout')")
    assert fetch(earlier, "SELECT retry_count, max_retries FROM public.reading_jobs WHERE status = 'timeout'") == [
        (0, 5)
    ]
    assert [tuple(row) for row in fetch(earlier, CHECK)] == [(0, [])]
    assert "nothing to do" in adopt(earlier).stdout


def test_a_function_with_another_answer_is_replaced(earlier: str) -> None:
    """Whatever had the name before, its callers find the documented one."""
    execute(earlier, "CREATE FUNCTION public.check_reading_timeouts() RETURNS integer LANGUAGE sql AS 'SELECT 42'")
    adopt(earlier)
    assert [tuple(row) for row in fetch(earlier, CHECK)] == [(0, [])]


def test_a_narrow_column_and_another_schema(database: str) -> None:
    """Words in a varchar, and names that need quotes."""
    execute(
        database,
        'CREATE SCHEMA "Old Data"',
        'CREATE TABLE "Old Data".reading_jobs (id uuid PRIMARY KEY, status varchar(10) NOT NULL '
        "CHECK (status = 'pending' OR status = 'generating'))",
    )
    adopt(database, "--schema", "Old Data")
    execute(
        database,
        'INSERT INTO "Old Data".reading_jobs (id, status, started_at) '
        "VALUES (gen_random_uuid(), 'generating', now() - interval '1 day')",
    )
    [[count, _]] = fetch(database, 'SELECT * FROM "Old Data".check_reading_timeouts()')
    assert count == 1
    assert "nothing to do" in adopt(database, "--schema", "Old Data").stdout


def test_anything_but_a_table_is_refused(database: str) -> None:
    """Nothing there, Langlauf's own view, another view: each has its own message. A file is no database."""
    assert "there is no table public.reading_jobs" in adopt(database, exit_code=1).stderr
    migrate(database)
    assert "Langlauf's own view" in adopt(database, exit_code=1).stderr
    execute(database, "CREATE SCHEMA other", "CREATE VIEW other.reading_jobs AS SELECT 1 AS id")
    assert "is a view, not a table" in adopt(database, "--schema", "other", exit_code=1).stderr
    assert "PostgreSQL database" in adopt("jobs.db", exit_code=1).stderr
