"""The only file that asks what time it is, draws chance or makes an id."""

import os
import random
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from langlauf.domain.instant import Instant

_jitter = random.SystemRandom()
_STOCK = 256
_stock: list[str] = []
# A child that came by forking must not draw what its parent draws.
os.register_at_fork(after_in_child=_stock.clear)
#: The two highest bits of this digit are 1 and 0, the others are chance.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


class Clock(Protocol):
    """Tells the time; tests bring their own."""

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC."""
        return time.time_ns() // 1_000


class TimeSource(NamedTuple):
    """What a machine knows of time: the wall clock, which is set, and the time since its start, which only grows."""

    wall: Callable[[], Instant]
    #: microseconds; sleep counts
    since_boot: Callable[[], Instant]
    #: tells one start of the machine from the next
    boot_id: str


def machine_time() -> TimeSource:
    """The time of this machine, the same in all its processes."""
    return TimeSource(SystemClock().now, _since_boot, _boot_id())


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Seconds that only ever grow, time asleep included: for durations, such as what is left of a lease."""
    return time.clock_gettime(_STEADY)


def _since_boot() -> Instant:
    return time.clock_gettime_ns(_STEADY) // 1_000


def _boot_id() -> str:
    """Where the system does not tell, all starts count as one; a clock that would run back shows that they are not."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # A container may have a time since boot of its own.
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return "unknown"


def _chance() -> str:
    """32 random hexadecimal digits nobody else gets, in this thread or another."""
    while True:
        try:
            return _stock.pop()
        except IndexError:
            # Asking the system lets another thread run first: many draws in one cost as much as one.
            digits = os.urandom(_STOCK * 16).hex()
            _stock.extend(digits[start : start + 32] for start in range(0, len(digits), 32))


def new_id() -> str:
    """An unguessable UUID of version 7: sorted by time, with 74 random bits."""
    time_digits = f"{time.time_ns() // 1_000_000:012x}"
    chance = _chance()
    variant = _VARIANTS[chance[0]]
    return f"{time_digits[:8]}-{time_digits[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


def made_at(made: str) -> Instant | None:
    """When such an id was made, to the millisecond, by the clock of whoever made it; None for an id of other origin."""
    try:
        return int(made[:8] + made[9:13], 16) * 1_000 if made[13:15] == "-7" else None
    except ValueError:
        return None


def new_trace_id() -> str:
    """A random W3C trace id."""
    return _chance()


def new_word(alphabet: str, length: int) -> str:
    """Letters nobody can guess, for keys."""
    return "".join(secrets.choice(alphabet) for _ in range(length))


def new_secret() -> bytes:
    """What signatures are made with."""
    return secrets.token_bytes(32)


def draw() -> float:
    """A number from [0, 1), for jitter."""
    return _jitter.random()
