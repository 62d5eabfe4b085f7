"""Text that the database cannot store is not looked for."""

import asyncio

import pytest

from langlauf.hints import Hints
from langlauf.store.postgres.batch import storable_or_none
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres_stores import migrated_database


@pytest.mark.parametrize("text", ["", "a", "é", "\U0010ffff", "a\x01"])
def test_storable_text_is_looked_for_unchanged(text: str) -> None:
    """Nearly all text."""
    assert storable_or_none(text) == text


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "a\udfff"])
def test_unstorable_text_is_not_looked_for(text: str) -> None:
    """NUL and lone surrogates; the connection stays usable."""
    assert storable_or_none(text) is None

    async def main(url: str) -> None:
        store = await PostgresStore.open(url, hints=Hints())
        try:
            async with asyncio.timeout(60):  # a broken connection would be opened again and again
                assert await store.tenant("org-a").job(text) is None
                assert await store.tenant("org-a").chunks("j", [text, "c"]) == {}
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))
