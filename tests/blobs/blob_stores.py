"""Places for blobs that do not do, and stores that use some place."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from langlauf.domain.errors import StoreUnavailable
from langlauf.hints import Hints
from langlauf.store.blobs.protocol import Blobs, Listed
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock

#: Payloads over this are blobs in these tests.
INLINE_BYTES = 100
Scene = Callable[[SqliteStore, SetClock], Awaitable[None]]


class SilentBlobs:
    """A place that takes every request and answers none."""

    async def put(self, key: str, data: bytes | memoryview) -> None:  # noqa: ARG002
        await asyncio.Event().wait()

    async def get(self, key: str, *, at_most: int) -> bytes | None:  # noqa: ARG002
        await asyncio.Event().wait()
        return None

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:  # noqa: ARG002
        await asyncio.Event().wait()
        return None

    async def delete(self, keys: Sequence[str]) -> None:  # noqa: ARG002
        await asyncio.Event().wait()

    async def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:  # noqa: ARG002
        await asyncio.Event().wait()
        yield []

    async def check(self) -> None:
        """Says that it is away."""
        raise StoreUnavailable("silent")

    async def close(self) -> None:
        """There is nothing to let go of."""


async def open_with(
    path: Path | str, clock: SetClock, blobs: Blobs | None, *, seconds: float = 20.0, inline: int = INLINE_BYTES
) -> SqliteStore:
    """A SQLite store whose large payloads lie there."""
    store = await SqliteStore.open(str(path), clock=clock, hints=Hints())
    if blobs is not None:
        store.blobs.use(blobs, largest_inline=inline, seconds=seconds)
    return store


def play_with(
    path: Path | str,
    opened: Callable[[], Blobs | None],
    scene: Scene,
    *,
    seconds: float = 20.0,
    clock: SetClock | None = None,
) -> None:
    """Runs a scene on a store with blobs."""
    clock = clock or SetClock()

    async def main() -> None:
        store = await open_with(path, clock, opened(), seconds=seconds)
        try:
            await scene(store, clock)
        finally:
            await store.close()

    asyncio.run(main())


async def keys_in(store: SqliteStore) -> list[str]:
    """The names of all blobs of a store."""
    assert store.blobs._payloads is not None
    return sorted([place.name async for page in store.blobs._payloads.pages() for place in page])
