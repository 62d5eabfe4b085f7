"""Blocking reads of blobs, for commands over a whole store."""

import asyncio
from types import TracebackType
from typing import Self

from langlauf.domain.errors import PayloadUnavailable, StoreUnavailable
from langlauf.store.blobs.names import BlobKey, read_ref
from langlauf.store.blobs.owner import LARGEST_MARK, OwnerMark, key_of, read_mark
from langlauf.store.blobs.payloads import blobs_in_listing
from langlauf.store.blobs.protocol import Blobs


class BlockingPayloads:
    """Reads payloads of any store in this storage, on an event loop of its own."""

    def __init__(self, blobs: Blobs, *, seconds: float) -> None:
        self._blobs = blobs
        self._seconds = seconds
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._runner.run(self._blobs.close())
        self._runner.close()

    def read(self, store: str, org_id: str, job_id: str, ref: str) -> str:
        """Return the payload, byte for byte; raises `PayloadUnavailable` with what is wrong with it.

        Storage that does not answer raises `StoreUnavailable`.
        """
        known = read_ref(ref)
        if known is None:
            raise PayloadUnavailable(f"the reference {ref!r} is none that this program knows")
        place = BlobKey(store, org_id, job_id, known.digest)
        data = self._runner.run(self._get(place.key, known.size))
        if data is None:
            raise PayloadUnavailable(f"there is no blob {place.key}")
        if not known.fits(data):
            raise PayloadUnavailable(f"the blob {place.key} does not hold what was written")
        return data.decode()

    def owner(self, store: str) -> OwnerMark | None:
        """Return the store that the blobs in a folder belong to; None where nothing says so."""
        data = self._runner.run(self._get(key_of(store), LARGEST_MARK))
        return None if data is None else read_mark(data)

    def places(self, store: str, *, most: int, min_age: float = 0.0) -> list[BlobKey]:
        """The blobs of a store that are so many seconds old, so many at most; nothing of others is among them."""
        return self._runner.run(self._places(store, most, min_age))

    async def _places(self, store: str, most: int, min_age: float) -> list[BlobKey]:
        found: list[BlobKey] = []
        pages = self._blobs.pages(store)
        try:
            async with asyncio.timeout(self._seconds):
                async for page in pages:
                    found += blobs_in_listing(page, min_age)
                    if len(found) >= most:
                        break
        except TimeoutError as error:
            raise StoreUnavailable("the place for blobs did not answer in time") from error
        return found[:most]

    async def _get(self, key: str, size: int) -> bytes | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._blobs.get(key, at_most=size)
        except TimeoutError as error:
            raise StoreUnavailable("the place for blobs did not answer in time") from error
