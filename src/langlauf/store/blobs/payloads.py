"""Payloads of jobs: read in pieces, stored as blobs, named by their digest and verified when read."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from langlauf.clock import SystemClock
from langlauf.domain.errors import PayloadGone, PayloadUnavailable, StoreUnavailable
from langlauf.domain.instant import SECOND
from langlauf.domain.job import PayloadText
from langlauf.domain.result import PayloadSource
from langlauf.store.blobs.protocol import BlobKey, Blobs, Listed, Ref, escape_segment, read_key, read_ref, ref_of
from langlauf.telemetry.log import LogEvent, log_event

# -- sources -----------------------------------------------------------------------------------------------------------

#: Bytes of a piece. Smaller ones take longer in total: SQLite seeks to each from the start of the payload.
PIECE = 2 * 1_048_576


class InlinePayload:
    """A payload in memory."""

    def __init__(self, payload: bytes) -> None:
        self.size = self.holds = len(payload)
        self.whole = payload
        self.share: Hashable | None = None

    async def read(self, start: int) -> bytes | memoryview:
        return self.whole[start:]


class PayloadPieces:
    """A payload read piece by piece: `read` returns so many bytes from a position, or None where it was removed."""

    def __init__(self, size: int, read: Callable[[int, int], Awaitable[bytes | None]], *, piece: int = PIECE) -> None:
        self.size = size
        self.holds = min(size, piece)
        self.whole: bytes | None = None
        self.share: Hashable | None = None
        self._read = read
        self._piece = piece

    async def read(self, start: int) -> bytes | memoryview:
        wanted = min(self._piece, self.size - start)
        found = await self._read(start, wanted)
        if found is None or len(found) != wanted:
            raise PayloadGone("a payload was removed while it was read")
        return found


# -- blobs -------------------------------------------------------------------------------------------------------------

T = TypeVar("T")
_clock = SystemClock()
#: Hashing a large payload would block the event loop.
_THREADS = ThreadPoolExecutor(2, "langlauf-hashing")


class Payloads:
    """The blobs of one store. `name` returns its folder and is called once."""

    def __init__(self, blobs: Blobs, name: Callable[[], Awaitable[str]], *, seconds: float) -> None:
        self.blobs = blobs
        self._ask_name = name
        self._name: str | None = None
        self._seconds = seconds

    async def takes(self, org_id: str, job_id: str) -> bool:
        """Whether the key of this job's blobs is short enough: nearly always."""
        return BlobKey(await self.folder(), org_id, job_id, "").nameable

    async def keep(self, org_id: str, job_id: str, payload: PayloadText) -> str:
        """Store a payload and return its reference. It is garbage until a row references it."""
        data, ref = await _run_in_thread(lambda: _encode(payload))
        place = BlobKey(await self.folder(), org_id, job_id, ref.digest)
        try:
            await self.with_timeout(self.blobs.put(place.key, data))
        except StoreUnavailable as error:
            log_event(LogEvent.BLOBS_UNAVAILABLE, logging.ERROR, org_id=org_id, job_id=job_id, reason=str(error))
            # The message may reach a tenant, and must not name the storage.
            raise StoreUnavailable("a large payload could not be stored") from error
        return str(ref)

    async def read(self, org_id: str, job_id: str, ref: str, *, seconds: float | None = None) -> str | None:
        """Return the payload behind a reference, exactly as it was written; None where there is no blob."""
        known = read_ref(ref)
        if known is None:
            raise unavailable(org_id, job_id, f"the reference {ref!r} is none that this program knows")
        place = BlobKey(await self.folder(), org_id, job_id, known.digest)
        try:
            data = await self.with_timeout(self.blobs.get(place.key, at_most=known.size), seconds)
        except StoreUnavailable as error:
            raise unavailable(org_id, job_id, str(error)) from error
        if data is None:
            return None
        text = await _run_in_thread(lambda: _decode(known, data))
        if text is None:
            raise unavailable(org_id, job_id, f"the blob {known.digest} does not hold what was written")
        return text

    async def source(
        self, org_id: str, job_id: str, ref: str, *, missing: Callable[[], Awaitable[None]]
    ) -> PayloadSource:
        """Return the payload behind a reference, to be read in pieces.

        Its first piece shows whether it exists; `missing` raises where the blob is missing unexpectedly.
        """
        known = read_ref(ref)
        if known is None:
            raise unavailable(org_id, job_id, f"the reference {ref!r} is none that this program knows")
        key = BlobKey(await self.folder(), org_id, job_id, known.digest).key

        async def part(start: int, length: int) -> bytes | None:
            try:
                found = await self.with_timeout(self.blobs.part(key, start=start, length=length))
            except StoreUnavailable as error:
                raise unavailable(org_id, job_id, str(error)) from error
            if found is None:
                await missing()
            return found

        return BlobPieces(known, part, lambda reason: unavailable(org_id, job_id, reason))

    async def pages(self, org_id: str | None = None, *, min_age: float = 0.0) -> AsyncIterator[list[BlobKey]]:
        """Yield the blobs of the store, or of one org, that are at least so many seconds old, page by page."""
        store = await self.folder()
        pages = self.blobs.pages(store if org_id is None else f"{store}/{escape_segment(org_id)}")
        while (page := await self.with_timeout(anext(pages, None))) is not None:
            yield blobs_in_listing(page, min_age)

    async def remove(self, places: Sequence[BlobKey]) -> None:
        """Remove blobs."""
        if places:
            await self.with_timeout(self.blobs.delete([place.key for place in places]))

    async def folder(self) -> str:
        """Return the folder of the store."""
        if self._name is None:
            self._name = await self._ask_name()
        return self._name

    async def with_timeout(self, doing: Awaitable[T], seconds: float | None = None) -> T:
        """Return the result of a storage call; raise `StoreUnavailable` where it takes too long."""
        try:
            async with asyncio.timeout(seconds or self._seconds):
                return await doing
        except TimeoutError as error:
            raise StoreUnavailable("the place for blobs did not answer in time") from error


class BlobPieces(PayloadPieces):
    """A blob in pieces; the last one is returned only where the digest of all matches."""

    def __init__(
        self,
        ref: Ref,
        part: Callable[[int, int], Awaitable[bytes | None]],
        damaged: Callable[[str], PayloadUnavailable],
    ) -> None:
        super().__init__(ref.size, self._part)
        self._ref = ref
        self._get = part
        self._damaged = damaged
        self._seen = 0
        self._digest = hashlib.sha256()

    async def _part(self, start: int, length: int) -> bytes | None:
        if start != self._seen:
            raise ValueError("a blob is read from its start to its end")
        found = await self._get(start, length)
        if found is None:
            return None
        await _run_in_thread(lambda: self._digest.update(found))
        self._seen += len(found)
        whole = self._seen == self.size
        if len(found) != length or (whole and self._digest.hexdigest() != self._ref.digest):
            raise self._damaged(f"the blob {self._ref.digest} does not hold what was written")
        return found


def blobs_in_listing(page: Sequence[Listed], min_age: float) -> list[BlobKey]:
    """Return the blobs of a listing that are at least so many seconds old."""
    before = _clock.now() / SECOND - min_age
    old = [one.key for one in page if not min_age or one.written_at <= before]
    return [place for key in old if (place := read_key(key)) is not None]


def unavailable(org_id: str, job_id: str, reason: str) -> PayloadUnavailable:
    """Log the reason for operators, and return the error for callers, which does not name it."""
    log_event(LogEvent.PAYLOAD_UNAVAILABLE, logging.ERROR, org_id=org_id, job_id=job_id, reason=reason)
    return PayloadUnavailable(f"the payload of a result of job {job_id} cannot be read")


async def _run_in_thread(do: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, do)


def _encode(payload: PayloadText) -> tuple[bytes | memoryview, Ref]:
    data = payload.encode() if isinstance(payload, str) else payload
    return data, ref_of(data)


def _decode(ref: Ref, data: bytes) -> str | None:
    return data.decode() if ref.fits(data) else None
