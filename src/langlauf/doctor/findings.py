"""What a check finds: a level, what was seen, and the next step to take."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How grave it is. `unknown` is a check that could not be made."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class Seen(msgspec.Struct, frozen=True):
    """What one check saw. `step` is a command, where there is something to do."""

    level: Level
    words: str
    step: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """The same by the name of its check."""

    name: str
    level: Level
    seen: str
    next: str | None


def fine(words: str) -> Seen:
    """All is well."""
    return Seen(Level.OK, words)


def odd(words: str, step: str) -> Seen:
    """Worth a look by day."""
    return Seen(Level.WARNING, words, step)


def wrong(words: str, step: str) -> Seen:
    """To be put right now."""
    return Seen(Level.ERROR, words, step)


def unknown(words: str, step: str | None = None) -> Seen:
    """Nothing can be said."""
    return Seen(Level.UNKNOWN, words, step)


def some(names: list[str], most: int = 3) -> str:
    """The first few of a list, for a sentence."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_FEW = 2.0


def ago(seconds: float) -> str:
    """So long, as people say it."""
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= _FEW * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    """So many bytes, as people say it."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1_024:  # noqa: PLR2004
            return f"{count:.0f} {unit}"
        count /= 1_024
    return f"{count:.1f} GiB"
