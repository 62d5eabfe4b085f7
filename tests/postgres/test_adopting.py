"""`langlauf adopt reading_jobs`: the table of an earlier system gets what handles its failures, and loses nothing."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.hints import Hints
from langlauf.store.postgres import adopting
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.earlier_table import CannotAdopt
from tests.support.postgres import address, execute, fetch, fresh_database, own_server

#: The table as it was before its failures were handled, with a trigger as such tables have it.
EARLIER = """
CREATE TABLE public.reading_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id uuid,
    status text NOT NULL DEFAULT 'pending'
        CONSTRAINT "job states" CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    question text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO public.reading_jobs (status, question, updated_at)
SELECT (ARRAY['pending', 'processing', 'completed', 'failed', 'cancelled'])[n % 5 + 1], 'question ' || n, '2025-01-01'
FROM generate_series(1, 50) AS n;
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at = now(); RETURN NEW; END';
CREATE TRIGGER touches BEFORE UPDATE ON public.reading_jobs FOR EACH ROW EXECUTE FUNCTION public.touch();
"""
ROWS = """
SELECT md5(string_agg(concat_ws('|', id, user_id, status, question, created_at, updated_at), ',' ORDER BY id))
FROM public.reading_jobs
"""
#: Everything the catalog knows about the table and its function; a change of any row of it has another xmin.
CATALOG = """
SELECT 'column' AS kind, attname::text AS name, xmin::text || format_type(atttypid, atttypmod) || attnotnull AS says
FROM pg_attribute WHERE attrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'check', conname::text, xmin::text || pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'index', indexrelid::regclass::text, xmin::text || pg_get_indexdef(indexrelid)
FROM pg_index WHERE indrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'function', proname::text, xmin::text || proacl::text || prosrc
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY 1, 2
"""
CHECK = "SELECT * FROM public.check_reading_timeouts()"
RESULT = "RETURNS TABLE (updated_count integer, updated_jobs uuid[])"


@pytest.fixture
def earlier(database: str) -> str:
    """A database with the table of the earlier system."""
    execute(database, EARLIER)
    return database


def adopt(url: str, *words: str, exit_code: int = 0) -> Result:
    """Runs the command as a person would."""
    done = CliRunner().invoke(main, ["adopt", "reading_jobs", "--store", url, *words], prog_name="langlauf")
    assert done.exit_code == exit_code, done.output
    return done


def migrate(url: str) -> None:
    """Langlauf is started on the database."""

    async def run() -> None:
        store = await PostgresStore.open(url, hints=Hints())
        await store.close()

    asyncio.run(run())


def facts(url: str) -> list[tuple[Any, ...]]:
    """What the catalog says, to be compared."""
    return [tuple(row) for row in fetch(url, CATALOG)]


def test_the_table_gets_what_the_document_says(earlier: str) -> None:
    """Seven columns, three constraints, three indexes and the function; not a byte of the old columns changes."""
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


def test_a_second_time_changes_nothing(earlier: str) -> None:
    """No row of the catalog is written again, and the answer says so."""
    adopt(earlier)
    before = facts(earlier)
    assert "nothing to do" in adopt(earlier).stdout
    assert json.loads(adopt(earlier, "--json").stdout)["changes"] == []
    assert facts(earlier) == before


def test_a_dry_run_prints_what_the_real_one_does(earlier: str) -> None:
    """It changes nothing; what it prints can be run by hand, and nothing is left to do then."""
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
def test_what_stands_in_the_way_is_named(earlier: str, change: str, said: str) -> None:
    """A table that is something else is refused with the reason, and nothing of it changes."""
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


def test_states_that_are_not_among_the_eight(earlier: str) -> None:
    """Rows with other words keep their table as it is, and are named."""
    execute(
        earlier,
        'ALTER TABLE public.reading_jobs DROP CONSTRAINT "job states"',
        "INSERT INTO public.reading_jobs (status) VALUES ('archived'), ('paused')",
    )
    before = facts(earlier)
    assert "'archived', 'paused'" in adopt(earlier, exit_code=1).stderr
    assert facts(earlier) == before


def test_an_index_of_that_name_that_is_another(earlier: str) -> None:
    """It is refused by name; the right one, made by hand, is left alone."""
    adopt(earlier)
    execute(
        earlier,
        "DROP INDEX public.idx_reading_jobs_error_code",
        "CREATE INDEX idx_reading_jobs_error_code ON public.reading_jobs (error_code)",
    )
    assert "another idx_reading_jobs_error_code" in adopt(earlier, exit_code=1).stderr


def test_what_an_earlier_attempt_left(earlier: str) -> None:
    """Columns without default and with nulls, a part of the indexes, a function of the document: all is completed."""
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
    """Whatever had the name before, its callers find the one of the document."""
    execute(earlier, "CREATE FUNCTION public.check_reading_timeouts() RETURNS integer LANGUAGE sql AS 'SELECT 42'")
    adopt(earlier)
    assert [tuple(row) for row in fetch(earlier, CHECK)] == [(0, [])]


def test_a_narrow_column_and_another_schema(database: str) -> None:
    """Words in a varchar, and names that need quotes, are as good."""
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


def test_what_is_no_table(database: str) -> None:
    """Nothing there, Langlauf's own view, another view: each is told apart. A file is no database."""
    assert "there is no table public.reading_jobs" in adopt(database, exit_code=1).stderr
    migrate(database)
    assert "Langlauf's own view" in adopt(database, exit_code=1).stderr
    execute(database, "CREATE SCHEMA other", "CREATE VIEW other.reading_jobs AS SELECT 1 AS id")
    assert "is a view, not a table" in adopt(database, "--schema", "other", exit_code=1).stderr
    assert "PostgreSQL database" in adopt("jobs.db", exit_code=1).stderr


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
    assert set(meta) == {"threshold_seconds", "started_at", "detected_at"}
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


def test_two_calls_take_each_row_once(earlier: str) -> None:
    """Neither waits for the other, nor for a row that somebody else has in hand."""
    adopt(earlier)
    held, free = overdue(earlier), overdue(earlier)

    async def run() -> None:
        async with connected(earlier) as first, connected(earlier) as second, connected(earlier) as other:
            async with other.transaction():
                await other.execute("SELECT FROM public.reading_jobs WHERE id = $1 FOR UPDATE", held)
                async with first.transaction():
                    count, ids = await asyncio.wait_for(first.fetchrow(CHECK), 5)
                    assert (count, [str(one) for one in ids]) == (1, [free])
                    assert tuple(await asyncio.wait_for(second.fetchrow(CHECK), 5)) == (0, [])
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
                assert await asyncio.wait_for(reader.fetchval("SELECT count(*) FROM public.reading_jobs"), 2) == 50
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
