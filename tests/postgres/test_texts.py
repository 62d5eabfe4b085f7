"""What the database cannot hold is not asked for."""

import asyncio

import pytest

from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.texts import name_of
from tests.support.postgres_stores import migrated_database


@pytest.mark.parametrize("text", ["", "a", "é", "\U0010ffff", "a\x01"])
def test_what_a_row_can_hold_is_looked_for_as_it_is(text: str) -> None:
    """Most of what there is."""
    assert name_of(text) == text


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "a\udfff"])
def test_what_no_row_can_hold_is_not_looked_for(text: str) -> None:
    """NUL, and halves of a character; the connection is none the worse for it."""
    assert name_of(text) is None

    async def main(url: str) -> None:
        store = await PostgresStore.open(url, hints=Hints())
        try:
            async with asyncio.timeout(60):  # one that broke would be opened again and again
                assert await store.tenant("org-a").job(text) is None
                assert await store.tenant("org-a").chunks("j", [text, "c"]) == {}
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))
