"""Roles: every migrating login, with any rights, on any server, gets the same two, or is told what is missing."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.domain.errors import SettingsError
from langlauf.store.postgres.migrate import migrate_database, roles_sql
from tests.support.postgres import address, execute, fetch, fresh_database, own_server

_ROLES = "SELECT rolname, rolcanlogin, rolsuper, rolbypassrls FROM pg_roles WHERE rolname LIKE 'langlauf%' ORDER BY 1"
_BOTH = [("langlauf_api", False, False, False), ("langlauf_engine", False, False, False)]


@pytest.fixture(scope="module", params=["system", "wheel"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server for these tests, as roles belong to all its databases. The two have different major versions."""
    with own_server(source=request.param) as running:
        yield running.url()


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    """A database on a server without the roles and other logins."""
    logins = ("owner", "maker", "app", "odd'\"one")
    with fresh_database(server=server) as url:
        for name in logins:
            execute(server, f"CREATE ROLE {_quoted(name)} LOGIN")
        yield url
    for name in (*logins, "langlauf_api", "langlauf_engine"):
        execute(server, f"DROP ROLE IF EXISTS {_quoted(name)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def as_login(url: str, name: str) -> str:
    """Return the same database for another login."""
    return address(url, url.rpartition("/")[2], user=name)


def give(url: str, name: str) -> None:
    """Make a login the owner of a database."""
    execute(url, f'ALTER DATABASE "{url.rpartition("/")[2]}" OWNER TO {_quoted(name)}')


def migrated(url: str) -> int:
    """Migrate a database; return how many steps that took."""
    return len(asyncio.run(migrate_database(url))[1])


def test_a_superuser_makes_the_roles(empty: str) -> None:
    """With a superuser's URL the program creates both, without login."""
    assert migrated(empty) > 0
    assert [tuple(row) for row in fetch(empty, _ROLES)] == _BOTH
    assert migrated(empty) == 0


def test_an_owner_that_may_make_roles_makes_them(empty: str) -> None:
    """The owner of the database only needs CREATEROLE; a second database works too."""
    execute(empty, "ALTER ROLE owner CREATEROLE CREATEDB")
    give(empty, "owner")
    assert migrated(as_login(empty, "owner")) > 0
    assert [tuple(row) for row in fetch(empty, _ROLES)] == _BOTH
    with fresh_database(server=as_login(empty, "owner")) as second:
        assert migrated(second) > 0


@pytest.mark.parametrize("name", ["owner", "odd'\"one"])
def test_an_owner_without_createrole_gets_the_sql(empty: str, name: str) -> None:
    """Nothing is created; the message has the SQL for an administrator, and afterwards it works."""
    give(empty, name)
    with pytest.raises(SettingsError, match="may not make the roles") as refused:
        migrated(as_login(empty, name))
    assert roles_sql(name) in str(refused.value)
    assert fetch(empty, "SELECT FROM pg_namespace WHERE nspname = 'langlauf'") == []
    execute(empty, roles_sql(name), roles_sql(name))
    assert migrated(as_login(empty, name)) > 0


def test_the_command_prints_the_same_sql(empty: str) -> None:
    """It does not connect, and takes the login from the URL."""
    said = CliRunner().invoke(main, ["migrate", "--print-roles", "--store", "postgresql://owner:hunter22@nowhere/x"])
    assert (said.exit_code, said.stdout) == (0, roles_sql("owner"))
    give(empty, "owner")
    execute(empty, said.stdout)
    assert migrated(as_login(empty, "owner")) > 0


def test_roles_of_another_login_are_not_used(empty: str) -> None:
    """Roles of another login are used only if an administrator grants them; the message says how."""
    execute(empty, roles_sql("maker"))
    give(empty, "owner")
    with pytest.raises(SettingsError, match="may not make the roles"):
        migrated(as_login(empty, "owner"))
    execute(empty, roles_sql("owner"))
    assert migrated(as_login(empty, "owner")) > 0


def test_a_role_that_bypasses_row_security_is_refused(empty: str) -> None:
    """With it, the policies would have no effect."""
    execute(empty, roles_sql("owner"), "ALTER ROLE langlauf_api BYPASSRLS")
    give(empty, "owner")
    with pytest.raises(SettingsError, match="ALTER ROLE langlauf_api NOSUPERUSER NOBYPASSRLS"):
        migrated(as_login(empty, "owner"))


def test_a_login_that_only_runs_owns_nothing(empty: str) -> None:
    """Three grants let it call functions; it has no right on a table of jobs, and is a member of nothing."""
    app = as_login(empty, "app")
    with pytest.raises(SettingsError, match="may not change the schema"):
        migrated(app)
    migrated(empty)
    with pytest.raises(SettingsError, match="--print-roles --login app"):
        migrated(app)
    said = CliRunner().invoke(main, ["migrate", "--print-roles", "--login", "app", "--store", empty])
    execute(empty, said.stdout, said.stdout)
    assert migrated(app) == 0
    assert fetch(app, "SELECT langlauf.moment(5)")[0][0] == 5
    assert fetch(app, "SELECT * FROM langlauf.views_of('{a}', ARRAY[langlauf.key_of('b')])") == []
    for statement in (
        "SELECT FROM langlauf.jobs",
        "DELETE FROM langlauf.event_rows",
        "SELECT FROM langlauf.signing_secrets",
        "SET ROLE langlauf_api",
        "SET ROLE langlauf_engine",
        "CREATE TABLE langlauf.mine ()",
        "SELECT langlauf.guard_tables()",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            execute(app, statement)


def test_ten_databases_make_the_roles_at_once(server: str, empty: str) -> None:
    """Roles belong to the server: the second to create them finds them."""
    with fresh_database(server=server) as second, fresh_database(server=server) as third:

        async def race() -> list[tuple[int, list[str]]]:
            return await asyncio.gather(*(migrate_database(url) for url in [empty, second, third] * 4))

        results = asyncio.run(race())
    assert len({schema for schema, _ in results}) == 1
    assert sum(bool(done) for _, done in results) == 3
