"""Time stamps, jitter and ids of records. Timeouts and caches may read `time.monotonic` themselves."""

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
# A forked child must not draw what its parent draws.
os.register_at_fork(after_in_child=_stock.clear)
#: The two highest bits of this digit are 1 and 0, the others are random.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


class Clock(Protocol):
    """A source of the current time; tests bring their own."""

    def now(self) -> Instant:
        """Return microseconds since 1970 in UTC."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> Instant:
        """Return microseconds since 1970 in UTC."""
        return time.time_ns() // 1_000


class TimeSource(NamedTuple):
    """The clocks of a machine: wall time, which can be set, and time since boot, which only grows."""

    wall: Callable[[], Instant]
    #: microseconds, including sleep
    since_boot: Callable[[], Instant]
    #: differs after each boot
    boot_id: str


def machine_time() -> TimeSource:
    """Return the clocks of this machine, the same in all its processes."""
    return TimeSource(SystemClock().now, _since_boot, _boot_id())


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Return seconds that only grow, including sleep: for durations, such as the rest of a lease."""
    return time.clock_gettime(_STEADY)


def _since_boot() -> Instant:
    return time.clock_gettime_ns(_STEADY) // 1_000


def _boot_id() -> str:
    """Return an id of the current boot. Without one all boots are the same; a clock that runs back reveals it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # A container may have a boot time of its own.
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return "unknown"


def _chance() -> str:
    """Return 32 random hexadecimal digits, unique over all threads."""
    while True:
        try:
            return _stock.pop()
        except IndexError:
            # A system call lets another thread run first: many draws in one cost as much as one.
            digits = os.urandom(_STOCK * 16).hex()
            _stock.extend(digits[start : start + 32] for start in range(0, len(digits), 32))


def new_id() -> str:
    """Return an unguessable UUID of version 7: sorted by time, with 74 random bits."""
    time_digits = f"{time.time_ns() // 1_000_000:012x}"
    chance = _chance()
    variant = _VARIANTS[chance[0]]
    return f"{time_digits[:8]}-{time_digits[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


def made_at(made: str) -> Instant | None:
    """Return when such an id was made, in milliseconds of its maker's clock; None for an id of other origin."""
    try:
        return int(made[:8] + made[9:13], 16) * 1_000 if made[13:15] == "-7" else None
    except ValueError:
        return None


def new_trace_id() -> str:
    """Return a random W3C trace id."""
    return _chance()


def new_word(alphabet: str, length: int) -> str:
    """Return random characters, for keys."""
    return "".join(secrets.choice(alphabet) for _ in range(length))


def new_secret() -> bytes:
    """Return a random secret for signatures."""
    return secrets.token_bytes(32)


def draw() -> float:
    """Return a random number from [0, 1), for jitter."""
    return _jitter.random()
