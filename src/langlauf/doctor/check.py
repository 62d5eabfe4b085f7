"""A check of `langlauf doctor`, its result, and how results name amounts."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.health import HealthRule


class Needs(StrEnum):
    """What a check needs to run."""

    SETTINGS = "settings"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    STORE = "store"
    #: the schema must be that of this version
    ROWS = "rows"

    @property
    def shown(self) -> str:
        """The stores it is for, in the documents."""
        return {Needs.SQLITE: "SQLite", Needs.POSTGRES: "PostgreSQL"}.get(self, "both")


class CheckLevel(StrEnum):
    """The result of a check. `unknown` means that it could not run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found. `next_step` is a command, where there is something to do."""

    level: CheckLevel
    message: str
    next_step: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """The same with the name of the check, as `--json` prints it."""

    name: str
    level: CheckLevel
    seen: str
    next: str | None


class Check(NamedTuple):
    """One check. `expectation` is its line in the documents."""

    name: str
    needs: Needs
    expectation: str
    run: Callable[[Any], CheckResult]


def ok(message: str) -> CheckResult:
    """Return the result of a check without a problem."""
    return CheckResult(CheckLevel.OK, message)


def warning(message: str, next_step: str) -> CheckResult:
    """Return a problem that can wait until the working day."""
    return CheckResult(CheckLevel.WARNING, message, next_step)


def error(message: str, next_step: str) -> CheckResult:
    """Return a problem to solve now."""
    return CheckResult(CheckLevel.ERROR, message, next_step)


def unknown(message: str, next_step: str | None = None) -> CheckResult:
    """Return the result of a check that could not run."""
    return CheckResult(CheckLevel.UNKNOWN, message, next_step)


def by_threshold(rule: HealthRule, value: float, message: str, next_step: str) -> CheckResult:
    """Return the result of comparing a value with the thresholds of a rule."""
    if value > rule.bad_threshold:
        return error(message, next_step)
    return warning(message, next_step) if value > rule.threshold else ok(message)


def join_first(names: list[str], most: int = 3) -> str:
    """Return the first few of a list, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_MIN_UNITS = 2.0


def format_age(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two: `90 s`, `3 min`."""
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= _MIN_UNITS * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_bytes(count: float) -> str:
    """Return a size in bytes, KiB, MiB or GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1_024:  # noqa: PLR2004
            return f"{count:.0f} {unit}"
        count /= 1_024
    return f"{count:.1f} GiB"
