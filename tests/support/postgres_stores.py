"""Databases that a store of PostgreSQL can open at once: copies of one that was migrated."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import fresh_database, template


@contextmanager
def migrated_database() -> Iterator[str]:
    """The URL of a database with the schema and nothing in it; it is dropped at the end."""
    with fresh_database(template=template("migrated", _migrate)) as url:
        yield url


def _migrate(url: str) -> None:
    async def main() -> None:
        store = await PostgresStore.open(url, hints=Hints())
        await store.close()

    asyncio.run(main())
