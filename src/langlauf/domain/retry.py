"""When a failed attempt is tried again: exponential backoff with full jitter."""

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """The delay before try n is drawn evenly from 0 to min(cap, base · 2ⁿ) seconds."""

    base: float = 1.0
    cap: float = 60.0

    def ceiling(self, retries_so_far: int) -> float:
        """The longest delay for this many retries before; large counts cannot overflow."""
        return min(self.cap, self.base * 2.0 ** min(retries_so_far, 60))

    def delay(self, retries_so_far: int, draw: float) -> float:
        """The delay for a number drawn from [0, 1)."""
        return self.ceiling(retries_so_far) * draw
