"""Databases that the benchmark creates on a PostgreSQL server and drops again; it changes nothing else there."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from langlauf.domain.errors import LanglaufError
from langlauf.store.postgres.migrate import migrate

_PREFIX = "langlauf_bench_"
#: No statement timeout for bulk loads.
_RAW = """
SET search_path = langlauf, pg_temp;
SET jit = off;
"""


@asynccontextmanager
async def own_database(server: str) -> AsyncIterator[str]:
    """Yield the URL of a new database with the store's schema; drop it at the end, even with open connections."""
    name = _PREFIX + secrets.token_hex(6)
    async with connected(server) as connection:
        await connection.execute(f'CREATE DATABASE "{name}"')
    try:
        url = _address(server, name)
        async with connected(url) as connection:
            await migrate(connection)
        yield url
    finally:
        async with connected(server) as connection:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@asynccontextmanager
async def connected(url: str, settings: str = "") -> AsyncIterator[Any]:
    """Yield a bare connection whose search path is the store's schema."""
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except (OSError, asyncpg.PostgresError, TimeoutError, ValueError) as error:
        raise LanglaufError(f"cannot connect to the database: {error or type(error).__name__}") from error
    try:
        await connection.execute(_RAW + settings)
        yield connection
    except asyncpg.PostgresError as error:
        raise LanglaufError(f"the database rejected a statement of the benchmark: {error}") from error
    finally:
        connection.terminate() if connection.is_in_transaction() else await connection.close()


async def version(server: str) -> str:
    """Return the version of the server."""
    async with connected(server) as connection:
        said: str = await connection.fetchval("SHOW server_version")
    return said.partition(" ")[0]


def _address(server: str, database: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
