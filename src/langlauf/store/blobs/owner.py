"""The owner of blobs: a mark beside them names the store that they belong to.

A copy of a store knows the same folder, but not what the original wrote since, which is garbage to it. So the mark says
where the owner is, and a store elsewhere neither serves nor removes blobs until an operator hands
them over. All processes of one store share the mark.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from langlauf.domain.errors import StoreError
from langlauf.store.blobs.payloads import Payloads


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
