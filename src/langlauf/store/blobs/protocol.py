"""What every place for blobs promises. It knows keys and bytes, and nothing of jobs.

A key is a few words with slashes between, as `naming.py` makes them. Whatever goes wrong with the place itself raises
`StoreUnavailable`; its message is for operators and may name the place.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

#: How many keys a page of a listing has at most, and so how many are removed in one step.
KEYS_PER_PAGE = 500


class Listed(NamedTuple):
    """A blob in a listing, with the time at which it was written, in seconds since 1970 by the clock of the place."""

    key: str
    written_at: float


class Blobs(Protocol):
    """Bytes by key. Writing a key again with the same bytes changes nothing."""

    async def put(self, key: str, data: bytes) -> None:
        """Keeps the bytes, all or none of them; when it returns they survive a crash."""

    async def get(self, key: str, *, at_most: int) -> bytes | None:
        """The bytes, None where there are none; where there are more than `at_most`, only that there are more."""

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:
        """So many bytes from a position, or fewer where there are no more; None where there is nothing by that key."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes them; those that are not there are fine."""

    def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        """All blobs under a prefix, some at a time, in no order. What comes or goes meanwhile may be missed."""

    async def check(self) -> None:
        """Raises `SettingsError` where the place is there and will never do, `StoreUnavailable` where it is away."""

    async def close(self) -> None:
        """Lets go."""
