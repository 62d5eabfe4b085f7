"""Commands over a whole store: the owner's login needs no more rights, and one that only runs is refused."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.store.postgres.migrate import roles_sql
from langlauf.store.protocol import Store
from tests.support.postgres import address, execute, fresh_database, shared_server
from tests.support.store_kinds import store_under_test
from tests.support.stores import JobFactory, SetClock
from tests.support.v1_store import FULL


@pytest.fixture
def database() -> Iterator[tuple[str, str]]:
    """A database without a schema, for its owner and for a login that owns nothing."""
    names = [f"{word}_{secrets.token_hex(4)}" for word in ("owner", "app")]
    server = shared_server()
    for name in names:
        execute(server, f"CREATE ROLE {name} LOGIN")
    try:
        with fresh_database() as url:
            database = url.rpartition("/")[2]
            execute(url, roles_sql(names[0]), f'ALTER DATABASE "{database}" OWNER TO {names[0]}')
            owner, app = (address(url, database, user=name) for name in names)
            yield owner, app
    finally:
        for name in names:
            execute(server, f"DROP ROLE {name}")


def run(*arguments: Any) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_owner_needs_no_more_rights(database: tuple[str, str], tmp_path: Path) -> None:
    """Copy, import, export, verify and cleanup work under row-level security."""
    owner, _ = database
    earlier, out, back = tmp_path / "earlier.json", tmp_path / "out.json", tmp_path / "back.db"
    earlier.write_text(json.dumps(FULL))

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()

    with store_under_test("sqlite", tmp_path) as source:
        source.play(scene)
        made = run("copy-store", "--json", source.place, owner)
    assert made.exit_code == 0, made.output
    commands: list[tuple[Any, ...]] = [
        ("import-store", earlier, "--store", owner),
        ("verify", "--store", owner),
        ("export-store", out, "--store", owner),
        ("copy-store", owner, back),
        ("cleanup", "--store", owner),
        ("verify", "--store", owner),
        ("verify", "--store", back),
    ]
    for command in commands:
        done = run(*command)
        assert done.exit_code == 0, (command, done.output)
    assert len(json.loads(out.read_text())["jobs"]) == json.loads(made.stdout)["tables"]["jobs"]["rows"] + len(
        FULL["jobs"]
    )


def test_a_login_that_only_runs_is_told_which_one_to_use(database: tuple[str, str], tmp_path: Path) -> None:
    """It may not read tables of tenants, and is told which login may; a copy does not start."""
    owner, app = database
    name = app.partition("://")[2].partition("@")[0].partition(":")[0]
    assert run("migrate", "--store", owner).exit_code == 0
    execute(owner, roles_sql(owner.partition("://")[2].partition("@")[0], name).partition("END $roles$;")[2])
    checked = run("verify", "--store", app)
    assert checked.exit_code == 2
    assert "use the login that migrates the store" in checked.stderr
    assert run("copy-store", app, tmp_path / "new.db").exit_code == 1
    assert not (tmp_path / "new.db").exists()
