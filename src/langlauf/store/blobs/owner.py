"""The owner of blobs: a mark beside them names the store that they belong to; and blocking reads, which check it.

A copy of a store knows the same folder, but not what the original wrote since, which is garbage to it. So the mark says
where the owner is, and a store elsewhere neither serves nor removes blobs until an operator hands
them over. All processes of one store share the mark.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from langlauf.domain.errors import PayloadUnavailable, StoreError, StoreUnavailable
from langlauf.store.blobs.payloads import Payloads, blobs_in_listing
from langlauf.store.blobs.protocol import BlobKey, Blobs, read_ref


class StoreIdentity(NamedTuple):
    """Distinguishes a store from its copies. Two identities with an equal field are the same store."""

    #: for people: the host and the path of a file, or the name and the server of a database
    place: str
    #: for the system: the path and the inode of a file, or the numbers of a database and its server
    mark: str


#: The purpose of the secret that distinguishes a store from its restored backups: a restore draws a new one.
INSTANCE = "blob owner"
#: No key of an org contains it: they have no dots.
_NAME = "owner.mark"
LARGEST_MARK = 10_000


class BlobsOfAnother(StoreError):
    """The blobs belong to another store, of which this one seems to be a copy."""


class OwnerMark(msgspec.Struct, frozen=True):
    """The store that blobs belong to."""

    #: a hash of the store's secret
    instance: str
    place: str
    mark: str

    def covers(self, other: "OwnerMark") -> bool:
        """Whether the other is the same store, perhaps on a renamed host or restored to its path."""
        return self.instance == other.instance and (self.place == other.place or self.mark == other.mark)


def mark_of(secret: bytes, identity: StoreIdentity) -> OwnerMark:
    """Return the owner mark of a store with that secret and identity."""
    return OwnerMark(hashlib.sha256(b"langlauf blob owner\0" + secret).hexdigest(), *identity)


def key_of(folder: str) -> str:
    """Return the key of the owner mark of a folder."""
    return f"{folder}/{_NAME}"


def read_mark(data: bytes) -> OwnerMark:
    """Return the decoded mark; raise `BlobsOfAnother` where it cannot be read."""
    try:
        return msgspec.json.decode(data, type=OwnerMark)
    except msgspec.MsgspecError as error:
        raise BlobsOfAnother(f"the mark {_NAME} beside the blobs cannot be read: {error}") from error


class BlobOwner:
    """The owner mark of one store; its secret and identity are read when needed."""

    def __init__(
        self,
        payloads: Payloads,
        instance: Callable[[], Awaitable[bytes]],
        identity: Callable[[], Awaitable[StoreIdentity]],
    ) -> None:
        self._payloads = payloads
        self._instance = instance
        self._whereabouts = identity

    async def check(self) -> None:
        """Raise `BlobsOfAnother` unless the blobs are this store's; those without a mark become so."""
        here, found = await self._here(), await self._found()
        if found is not None and not found.covers(here):
            raise BlobsOfAnother(
                f"the blobs in the folder {await self._payloads.folder()} belong to the store {found.place}, and this "
                f"one is {here.place}: a copy must not remove what the original still needs. Give the copy a place of "
                "its own (LANGLAUF_BLOBS); or, where the original is gone or will never be used again, "
                "run: langlauf blobs take-over"
            )
        if found != here:
            await self._write(here)

    async def take_over(self) -> tuple[str | None, str]:
        """Make this store the owner; return the one that was, and this one, as people know them."""
        here, found = await self._here(), await self._found()
        await self._write(here)
        return None if found is None else found.place, here.place

    async def _here(self) -> OwnerMark:
        return mark_of(await self._instance(), await self._whereabouts())

    async def _found(self) -> OwnerMark | None:
        data = await self._payloads.with_timeout(self._payloads.blobs.get(await self._key(), at_most=LARGEST_MARK))
        return None if data is None else read_mark(data)

    async def _write(self, mark: OwnerMark) -> None:
        await self._payloads.with_timeout(self._payloads.blobs.put(await self._key(), msgspec.json.encode(mark)))

    async def _key(self) -> str:
        return key_of(await self._payloads.folder())


# -- blocking reads, for commands over a whole store -------------------------------------------------------------------


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
