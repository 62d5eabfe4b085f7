"""PostgreSQL for the tests: one server per run, fresh databases on it, and servers for single tests.

The server of a run is the one that `LANGLAUF_TEST_POSTGRES` names, or one that is started on first use; all processes
of the run share it. It ends with the run, also if that is interrupted or killed.
"""

import asyncio
import atexit
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import asyncpg

from tests.support.locks import locked
from tests.support.postgres_guardian import Guarded, guard
from tests.support.postgres_programs import find
from tests.support.postgres_server import LOOPBACK, Server, running

T = TypeVar("T")

#: The URL of an existing server.
GIVEN = "LANGLAUF_TEST_POSTGRES"
#: The folder of the run, by which its processes find each other.
RUN = "LANGLAUF_TEST_RUN"
#: Hundreds of databases are created on it; durability is tested on other servers.
_SHARED = {"fsync": "off"}
_guardians: list["subprocess.Popen[bytes]"] = []


def begin_run() -> Callable[[], None]:
    """Make this process the one whose end ends the run; return a function that ends it sooner."""
    guarded = Guarded()
    os.environ[RUN] = str(guarded.folder)

    def end() -> None:
        os.environ.pop(RUN, None)
        if given := os.environ.get(GIVEN):
            _drop_all(given, _names(guarded.folder))
        guarded.end()
        for guardian in _guardians:
            guardian.wait()
        shared_server.cache_clear()

    return end


@cache
def shared_server() -> str:
    """Return the URL of the run's server; its role may create databases and roles."""
    if given := os.environ.get(GIVEN):
        return given
    run = _run()
    with locked(run / "server.lock"):
        said = run / "server.json"
        if not said.exists():
            _guardians.append(guard(run))
            url = Server.create(run, find(run), settings=_SHARED).url()
            said.write_text(json.dumps(url), encoding="utf-8")
        return str(json.loads(said.read_text(encoding="utf-8")))


@contextmanager
def own_server(
    *,
    source: str | None = None,
    listen: Sequence[str] = (LOOPBACK,),
    prefix: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start a server for one test, to be stopped, killed and started again.

    `listen` are its addresses, and `prefix` is put before its command line, such as to enter a network namespace.
    `source` is where its programs come from: `system` or `wheel`.
    """
    with running(lambda shelf: find(shelf, source), listen=listen, prefix=prefix, settings=settings) as server:
        yield server


@contextmanager
def fresh_database(*, template: str | None = None, server: str | None = None) -> Iterator[str]:
    """Create a database, empty or from a template; drop it at the end, with open connections too."""
    server = server or shared_server()
    name = _names(_run()) + secrets.token_hex(6)
    execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{template or "template0"}"')
    try:
        yield address(server, name)
    finally:
        execute(server, f'DROP DATABASE "{name}" WITH (FORCE)')


def template(name: str, fill: Callable[[str], None], *, server: str | None = None) -> str:
    """Return the name of a template database. The first caller creates it and calls `fill` with its URL.

    `fill` runs in a thread of its own and may use `asyncio.run`. Afterwards the template refuses connections, as it can
    only be copied without any.
    """
    server, run = server or shared_server(), _run()
    full = f"{_names(run)}t_{name}"
    with locked(run / f"{full}.lock"):
        if not fetch(server, "SELECT FROM pg_database WHERE datname = $1 AND NOT datallowconn", full):
            execute(server, f'DROP DATABASE IF EXISTS "{full}" WITH (FORCE)', f'CREATE DATABASE "{full}"')
            url = address(server, full)
            _apart(lambda: fill(url))
            execute(server, f'ALTER DATABASE "{full}" ALLOW_CONNECTIONS false')
            fetch(server, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1", full)
    return full


def address(url: str, database: str, user: str | None = None, password: str | None = None) -> str:
    """Return the URL of another database on the same server, as another user if one is named."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if user is not None:
        login, at = quote(user, safe="") + (f":{quote(password, safe='')}" if password else ""), "@"
    return f"{parts.scheme}://{login}{at}{host}/{database}" + (f"?{parts.query}" if parts.query else "")


def execute(url: str, *statements: str) -> None:
    """Run statements on a connection of their own, each in its own transaction; also inside a running loop."""

    async def main() -> None:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    _apart(lambda: asyncio.run(main()))


def fetch(url: str, query: str, *values: object) -> list[Any]:
    """Return the rows of a query on a connection of its own; also inside a running loop."""

    async def main() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return list(await connection.fetch(query, *values))
        finally:
            await connection.close()

    return _apart(lambda: asyncio.run(main()))


def _apart(work: Callable[[], T]) -> T:
    """Run work in a thread of its own, which may have a loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def _run() -> Path:
    """Return the folder of the run; a program outside of a test run begins one for itself."""
    if RUN not in os.environ:
        atexit.register(begin_run())
    return Path(os.environ[RUN])


def _names(run: Path) -> str:
    """Return the name prefix of the databases of a run: two runs may share a server."""
    return f"langlauf_{run.name.rpartition('-')[2].lower()}_"


def _drop_all(server: str, prefix: str) -> None:
    """Drop what a run has left on a server that stays."""
    for row in fetch(server, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix):
        execute(server, f'DROP DATABASE IF EXISTS "{row["datname"]}" WITH (FORCE)')
