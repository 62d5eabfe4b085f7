"""Payload sources: payloads of a store that are read in pieces."""

from collections.abc import Awaitable, Callable, Hashable

from langlauf.domain.errors import PayloadGone

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
