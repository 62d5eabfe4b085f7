"""The protocol of blob storage: keys and bytes, nothing about jobs.

A key has segments with slashes between, as `names.py` makes them. Every failure of the storage raises
`StoreUnavailable`; its message is for operators and may name the storage.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

#: The most keys of a page of a listing, and so of one delete.
KEYS_PER_PAGE = 500


class Listed(NamedTuple):
    """A blob in a listing, with the time of its write in seconds since 1970, by the clock of the storage."""

    key: str
    written_at: float


class Blobs(Protocol):
    """Bytes by key. Writing the same bytes again changes nothing."""

    async def put(self, key: str, data: bytes | memoryview) -> None:
        """Store the bytes atomically; when it returns they survive a crash."""

    async def get(self, key: str, *, at_most: int) -> bytes | None:
        """Return the bytes, or None where there is no blob; `at_most` + 1 bytes where it is larger."""

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:
        """Return so many bytes from a position, or fewer at the end; None where there is no blob."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete blobs; missing ones are ignored."""

    def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        """Yield all blobs under a prefix in pages, unordered. Concurrent changes may be missed."""

    async def check(self) -> None:
        """Raise `SettingsError` where the storage can never be used, `StoreUnavailable` where it does not answer."""

    async def close(self) -> None:
        """Close it."""
