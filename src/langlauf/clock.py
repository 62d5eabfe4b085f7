"""The only file that asks what time it is, draws chance or makes an id."""

import os
import random
import time
from typing import Protocol

from langlauf.domain.instant import Instant

_jitter = random.SystemRandom()


class Clock(Protocol):
    """Tells the time; tests bring their own."""

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC."""
        return time.time_ns() // 1_000


def new_id() -> str:
    """An unguessable UUID of version 7: sorted by time, with 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10), "big")
    number = (milliseconds & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (chance >> 62 & 0xFFF) << 64 | 0b10 << 62
    number |= chance & 0x3FFFFFFFFFFFFFFF
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_trace_id() -> str:
    """A random W3C trace id."""
    return os.urandom(16).hex()


def draw() -> float:
    """A number from [0, 1), for jitter."""
    return _jitter.random()
