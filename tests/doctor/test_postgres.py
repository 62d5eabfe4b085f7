"""Doctor on a PostgreSQL database: each fault of the server and of the rights in it is found by name."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from langlauf.doctor import postgres as server
from langlauf.store.postgres import connection
from langlauf.store.postgres.migrate import migrate_database, roles_sql
from tests.doctor.checked_store import CheckedStore, refilled, set_up
from tests.postgres.pooler import pooler_before
from tests.support.postgres import execute, fetch, own_server


def _of_database(store: CheckedStore, change: str) -> None:
    [[name]] = fetch(store.place, "SELECT current_database()")
    store.run(f'ALTER DATABASE "{name}" {change}')


def _dropped_constraint(store: CheckedStore) -> None:
    checks = (
        "SELECT conname FROM pg_constraint WHERE conrelid = 'langlauf.job_rows'::regclass AND contype = 'c' LIMIT 1"
    )
    [[name]] = fetch(store.place, checks)
    store.run(f'ALTER TABLE job_rows DROP CONSTRAINT "{name}"')


def _clock_apart(store: CheckedStore) -> None:
    store.run(
        "CREATE OR REPLACE FUNCTION moment(at bigint) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT coalesce(at, "
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 90000000) $$"
    )


_VALID = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'idx_jobs_finished'::regclass"


@pytest.mark.parametrize(
    ("name", "plant", "undo", "also"),
    [
        (
            "row_security",
            "ALTER TABLE job_rows DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE job_rows ENABLE ROW LEVEL SECURITY",
            {"schema_objects"},
        ),
        (
            "row_security",
            "ALTER TABLE result_rows NO FORCE ROW LEVEL SECURITY",
            "ALTER TABLE result_rows FORCE ROW LEVEL SECURITY",
            {"schema_objects"},
        ),
        ("rights", "GRANT SELECT ON jobs TO PUBLIC", "REVOKE ALL ON jobs FROM PUBLIC", set()),
        (
            "rights",
            "GRANT EXECUTE ON FUNCTION all_workers() TO PUBLIC",
            "REVOKE ALL ON FUNCTION all_workers() FROM PUBLIC",
            set(),
        ),
        ("damage", _VALID.format("false"), _VALID.format("true"), set()),
    ],
)
def test_a_fault_of_the_database_is_found(rows: CheckedStore, name: str, plant: str, undo: str, also: set[str]) -> None:
    """By name, with a next step; taken back, all is well again."""
    rows.run(plant)
    found = rows.examine()
    rows.run(undo)
    assert set(found.wrong) == {name} | also, found.findings
    assert (found.levels[name], found.exit_code) == ("error", 1)
    assert found.findings[name]["next"]
    assert rows.examine().wrong == {}


@pytest.mark.parametrize(
    ("name", "level", "setting", "value"),
    [
        ("synchronous_commit", "warning", "synchronous_commit", "off"),
        ("writable", "error", "default_transaction_read_only", "on"),
    ],
)
def test_a_setting_of_the_login_is_found(rows: CheckedStore, name: str, level: str, setting: str, value: str) -> None:
    """Here it is one of the database, which its logins have as well."""
    _of_database(rows, f"SET {setting} = {value}")
    try:
        assert rows.examine().wrong == {name: level}
    finally:
        [[database]] = fetch(rows.place, "SELECT current_database()")
        undo = f'ALTER DATABASE "{database}" RESET {setting}'
        execute(rows.place, "SET default_transaction_read_only = off", undo)


@pytest.mark.parametrize(("name", "plant"), [("schema_objects", _dropped_constraint), ("clock", _clock_apart)])
def test_a_fault_of_the_schema_is_found(schema: CheckedStore, name: str, plant: Callable[[CheckedStore], None]) -> None:
    """What was changed in it is told besides."""
    plant(schema)
    assert schema.examine().wrong == {"schema_objects": "error", name: "error"}


def test_a_newer_schema_is_found(rows: CheckedStore) -> None:
    """Rows are then not looked at."""
    rows.run("INSERT INTO migrations (number, name) VALUES (9999, 'future')")
    found = rows.examine()
    rows.run("DELETE FROM migrations WHERE number = 9999")
    assert (found.levels["schema_version"], found.levels["workers"]) == ("error", "unknown")
    assert "9999" in found.findings["schema_version"]["seen"]


def test_the_whole_server(tmp_path: Path) -> None:
    """One that is set up as it should be has no finding, and each fault of it is found."""
    settings = {"autovacuum": "off", "max_connections": "40", "fsync": "off"}
    with own_server(settings=settings) as running:
        store = refilled(_migrated(running.url()), tmp_path, frozenset())
        assert store.examine().wrong == {"server_durability": "error"}
        set_up(store.place, "fsync = on")
        found = store.examine("--strict")
        assert (found.exit_code, found.wrong) == (0, {})
        set_up(store.place, "full_page_writes = off")
        assert store.examine().wrong == {"server_durability": "error"}
        set_up(store.place, "full_page_writes = on")
        store.run("ALTER ROLE langlauf_api BYPASSRLS")
        found = store.examine()
        store.run("ALTER ROLE langlauf_api NOBYPASSRLS")
        assert (found.wrong, "langlauf_api" in found.findings["row_security"]["seen"]) == (
            {"row_security": "error"},
            True,
        )
        assert asyncio.run(_crowded(store)) == {"connections": "warning"}
        store.run("INSERT INTO duties SELECT number::text, 0, 'h' FROM generate_series(1, 60000) AS number")
        store.run("DELETE FROM duties WHERE succeeded_at = 0")
        assert store.examine().wrong == {"dead_rows": "warning"}


def _migrated(url: str) -> str:
    asyncio.run(migrate_database(url))
    return url


async def _crowded(store: CheckedStore) -> dict[str, str]:
    async with _sessions(store.place, 31):
        return (await asyncio.to_thread(store.examine)).wrong


def test_missing_timeouts_are_found(rows: CheckedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose sessions set none."""
    monkeypatch.setattr(connection, "SESSION_SETTINGS", "SET search_path = langlauf, pg_temp")
    found = rows.examine()
    assert found.wrong == {"session_timeouts": "error"}
    assert "statement_timeout" in found.findings["session_timeouts"]["seen"]


@asynccontextmanager
async def _sessions(url: str, number: int) -> AsyncIterator[list[asyncpg.Connection]]:
    opened = [await asyncpg.connect(url) for _ in range(number)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


def test_a_pooler_in_between_is_found(rows: CheckedStore) -> None:
    """Unless the URL says that it keeps sessions."""

    async def through() -> tuple[dict[str, str], dict[str, str]]:
        async with pooler_before(rows.place) as url:
            between = await asyncio.to_thread(rows._replace(place=url).examine)
            known = await asyncio.to_thread(rows._replace(place=f"{url}&pooler=session").examine)
            return between.wrong, known.wrong

    assert asyncio.run(through()) == ({"pooler": "error"}, {})


def test_whoever_holds_back_dead_rows_is_named(rows: CheckedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that began a transaction and went to sleep; here a moment is long."""
    monkeypatch.setattr(server, "_LONG_SECONDS", 0.0)

    async def held() -> dict[str, str]:
        async with _sessions(rows.place, 1) as [sleeper]:
            await sleeper.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
            pid = await sleeper.fetchval("SELECT pg_backend_pid()")
            found = await asyncio.to_thread(rows.examine)
            assert f"session {pid} of" in found.findings["old_transactions"]["seen"]
            assert "idle in transaction" in found.findings["old_transactions"]["seen"]
            return found.wrong

    assert asyncio.run(held()) == {"old_transactions": "warning"}


def test_a_server_that_is_away_cannot_be_checked(rows: CheckedStore) -> None:
    """Exit 2, with the address and without the password."""
    found = rows._replace(place="postgresql://app:hunter22@127.0.0.1:1/jobs").examine()
    assert (found.exit_code, found.wrong) == (2, {"store": "unknown"})
    assert "hunter22" not in str(found.findings)


def test_a_login_that_owns_nothing_can_look(rows: CheckedStore) -> None:
    """The login that runs the program sees all there is to see."""
    [[name]] = fetch(rows.place, "SELECT 'doctor_' || substr(md5(random()::text), 1, 8)")
    rows.run(f"CREATE ROLE {name} LOGIN", roles_sql("postgres", name).partition("$roles$;")[2])
    url = rows.place.replace("postgres@", f"{name}@")
    try:
        assert rows._replace(place=url).examine().wrong == {}
    finally:
        rows.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
