"""Checks of a database before it is used, and the settings of a connection."""

import asyncio
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path

import pytest
from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.domain.errors import SettingsError, StoreUnavailable
from langlauf.store.postgres.connection import CALL_TIMEOUT, DatabaseConnection
from langlauf.store.postgres.migrate import ConnectedServer, migrate_database, server_problem
from tests.postgres.pooler import pooler_before
from tests.support.postgres import address, execute, fetch, own_server
from tests.support.postgres_server import Server as RunningServer

_GOOD = ConnectedServer(
    version=150_004, encoding="UTF8", standby=False, backend_pid=7, connected_pid=7, database="jobs"
)
_SECRET = "hunter22/&="


@pytest.fixture(scope="module")
def asking() -> Iterator[RunningServer]:
    """A server with passwords, asynchronous commits by default, and a login `app` with a password."""
    with own_server(settings={"synchronous_commit": "off", "statement_timeout": "1h"}) as server:
        execute(server.url(), f"CREATE ROLE app LOGIN SUPERUSER PASSWORD '{_SECRET}'")
        rules = server.data / "pg_hba.conf"
        rules.write_text("host all app 0.0.0.0/0 scram-sha-256\n" + rules.read_text())
        fetch(server.url(), "SELECT pg_reload_conf()")
        yield server


async def shown(url: str, *names: str) -> list[str]:
    """Return settings of a connection of the store."""
    connection = DatabaseConnection(url, "test")
    try:
        return [(await connection.use(methodcaller("fetchrow", f"SHOW {name}")))[0] for name in names]
    finally:
        await connection.close()


def test_unsuitable_servers_are_refused() -> None:
    """Too old, another encoding, a standby, read-only, a pooler: each is refused with the remedy."""
    assert server_problem(_GOOD, through_pooler=False) is None
    for changed, words in (
        ({"version": 140_012}, "this is PostgreSQL 14: PostgreSQL 15 or later is needed"),
        ({"encoding": "LATIN1"}, "'jobs' has the encoding LATIN1"),
        ({"standby": True}, "standby"),
        ({"read_only": True}, "RESET default_transaction_read_only"),
        ({"connected_pid": 8}, r"\?pooler=session"),
    ):
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(server_problem(_GOOD._replace(**changed), through_pooler=False))
    assert server_problem(_GOOD._replace(connected_pid=8), through_pooler=True) is None


def test_a_database_in_another_encoding_is_refused(asking: RunningServer) -> None:
    """It could not hold every text; nothing is created in it."""
    execute(asking.url(), "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(SettingsError, match="'latin' has the encoding LATIN1"):
        asyncio.run(migrate_database(asking.url("latin")))
    assert fetch(asking.url("latin"), "SELECT FROM pg_namespace WHERE nspname = 'langlauf'") == []


def test_a_standby_is_refused() -> None:
    """It answers, but is read-only."""
    with own_server() as server:
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        with pytest.raises(SettingsError, match="standby"):
            asyncio.run(migrate_database(server.url()))


def test_a_pooler_is_refused_unless_it_keeps_sessions(database: str) -> None:
    """It reports another backend pid than the server; session mode is allowed."""

    async def through() -> None:
        async with pooler_before(database) as url:
            with pytest.raises(SettingsError, match="there is a pooler between"):
                await migrate_database(url)
            with pytest.raises(SettingsError, match="pooler= can only be session"):
                await migrate_database(f"{url}&pooler=transaction")
            assert (await migrate_database(f"{url}&pooler=session"))[1]

    asyncio.run(through())


def test_a_connection_has_timeouts(asking: RunningServer) -> None:
    """With any defaults of the server; and a commit is durable although the server would not wait for it."""
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit", "jit")
    assert fetch(asking.url(), "SHOW synchronous_commit")[0][0] == "off"
    said = asyncio.run(shown(asking.url(), *names))
    assert said == [f"{CALL_TIMEOUT:.0f}s", f"{CALL_TIMEOUT * 0.75:.0f}s", "10s", "on", "off"]
    vanished = ("tcp_user_timeout", "tcp_keepalives_idle", "client_connection_check_interval", "search_path")
    assert asyncio.run(shown(asking.url(), *vanished)) == ["4000", "5", "2s", "langlauf, pg_temp"]


def test_a_stricter_synchronous_commit_is_kept(asking: RunningServer) -> None:
    """A stricter synchronous_commit of the login is kept."""
    execute(asking.url(), "CREATE ROLE careful LOGIN", "ALTER ROLE careful SET synchronous_commit = remote_apply")
    assert asyncio.run(shown(asking.url(user="careful"), "synchronous_commit")) == ["remote_apply"]


def test_passwords_come_from_the_usual_sources(
    asking: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The URL, PGPASSWORD, or a password file."""
    bare = asking.url(user="app")
    with pytest.raises(StoreUnavailable):
        asyncio.run(shown(bare, "jit"))
    assert asyncio.run(shown(address(bare, "postgres", user="app", password=_SECRET), "jit")) == ["off"]
    monkeypatch.setenv("PGPASSWORD", _SECRET)
    assert asyncio.run(shown(bare, "jit")) == ["off"]
    monkeypatch.delenv("PGPASSWORD")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:app:{_SECRET}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert asyncio.run(shown(bare, "jit")) == ["off"]


@pytest.mark.parametrize("command", [["migrate", "--json"], ["sweep"], ["keys", "list"], ["cleanup"]])
def test_a_password_is_never_shown(asking: RunningServer, command: list[str]) -> None:
    """Neither if it is wrong, nor if the server is away, nor in printed names of the store."""
    wrong = address(asking.url(), "postgres", user="app", password="wrong22")
    away = wrong.replace(f":{asking.port}/", ":1/")
    query = f"{asking.url().replace('postgres@', '')}?user=app&password=wrong22"
    for url in (wrong, away, query):
        said = CliRunner().invoke(main, [*command, "--store", url])
        assert said.exit_code == 1
        assert "wrong22" not in said.output + repr(said.exception)
        assert "the database does not answer" in said.output
    right = address(asking.url(), "postgres", user="app", password=_SECRET)
    said = CliRunner().invoke(main, ["migrate", "--json", "--store", right])
    assert f'"store": "postgresql://127.0.0.1:{asking.port}/postgres"' in said.stdout
    assert "hunter" not in said.output


def test_required_tls_is_not_dropped(asking: RunningServer) -> None:
    """`sslmode=require` does not fall back to an unencrypted connection."""
    with pytest.raises(StoreUnavailable, match="SSL"):
        asyncio.run(shown(f"{asking.url()}?sslmode=require", "jit"))
