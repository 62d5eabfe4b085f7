"""PostgreSQL and Redis, started for a run on free ports of this machine, and stopped after it.

Where the machine has no program for one, a line says which package to install, and what needs it is left out.
"""

import asyncio
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from bench.processes import DidNotStart, free_port, running
from bench.progress import print_progress
from tests.support.postgres import own_server
from tests.support.tiers import Missing

_START_SECONDS = 20.0
#: As Debian installs it: what the tests set smaller is set back.
_POSTGRES = {"shared_buffers": "128MB", "max_connections": "100"}
#: The file of all commands, synced every second: the usual advice, and what a queue on Redis needs at least.
_REDIS = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")


@contextmanager
def postgres() -> Iterator[str | None]:
    """Run PostgreSQL with its defaults, fsync on; yield the URL of an empty database."""
    with ExitStack() as cleanup:
        url = None
        try:
            url = cleanup.enter_context(own_server(source="system", settings=_POSTGRES)).url()
            print_progress(f"PostgreSQL at {url}")
        except Missing:
            print_progress("PostgreSQL is not installed: install postgresql; what needs it is left out")
        yield url


@contextmanager
def redis(folder: Path) -> Iterator[str | None]:
    """Run Redis with its append-only file in a folder; yield its URL."""
    program = shutil.which("redis-server")
    if program is None:
        print_progress("Redis is not installed: install redis-server; what needs it is left out")
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "redis.log"
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *_REDIS]
    with running(command, folder=folder, environment={}, log=log):
        _wait_for_port(port, log)
        print_progress(f"Redis on port {port}")
        yield f"redis://127.0.0.1:{port}/0"


def wrk() -> str | None:
    """Return the path of wrk."""
    program = shutil.which("wrk")
    if program is None:
        print_progress("wrk is not installed: install wrk; what needs it is left out")
    return program


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """Make an empty database on a server, yield its URL, and drop it."""
    name = f"langlauf_bench_{secrets.token_hex(6)}"
    _execute(server, f'CREATE DATABASE "{name}"')
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        _execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def versions(postgres_url: str | None, has_redis: bool) -> dict[str, str]:
    """Return the versions of the services."""
    found = {}
    if postgres_url is not None:
        found["PostgreSQL"] = str(_execute(postgres_url, "SHOW server_version")).partition(" ")[0]
    if has_redis:
        said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        found["Redis"] = said.partition("v=")[2].partition(" ")[0]
    return found


def _execute(url: str, statement: str) -> object:
    async def execute() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(execute())


def _wait_for_port(port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise DidNotStart(f"Redis did not start: {log.read_text('utf-8', errors='replace')[-500:]}")
