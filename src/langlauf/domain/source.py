"""A stored payload that is read in pieces, so that sending a large one takes a piece of it and not the whole.

A read from start to end returns exactly what was written. A piece that retention took meanwhile, or that is
not what was written, raises: what was sent until then is seen to be cut, because its length was told before.
"""

from collections.abc import Hashable
from typing import Protocol

#: A payload up to this is read at once, with its size.
SMALL_PAYLOAD = 65_536


class PayloadSource(Protocol):
    """The payload of one snapshot as bytes of JSON text."""

    @property
    def size(self) -> int:
        """How many bytes there are in all."""

    @property
    def whole(self) -> bytes | None:
        """All of it, where it is small."""

    @property
    def holds(self) -> int:
        """How much memory reading it takes at the most."""

    @property
    def share(self) -> Hashable | None:
        """What that memory is for, where all who read the same payload share it."""

    async def read(self, start: int) -> bytes | memoryview:
        """The next piece from there on, in the order of the bytes; raises `PayloadGone` where it is no longer there."""
