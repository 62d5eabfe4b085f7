"""What all commands share: flags from the table of settings, durations, exit codes, errors, and what they print."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, TypeVar

import click
import msgspec

from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.text import escaped, escaped_lines
from langlauf.settings import BY_NAME, SETTINGS, Setting, Settings, load_settings
from langlauf.settings_values import parse_duration

F = TypeVar("F", bound=Callable[..., Any])
#: Settings of the client commands; a server has no use for them.
CLIENT_SETTINGS = ("url", "org", "key")
STORE_SETTINGS = ("store", "store_file")
#: Settings of the API; a worker without one has no use for them.
API_SETTINGS = (
    *("port", "processes", "sync_limit", "mcp", "mcp_inline", "max_body", "max_connections", "access"),
    *("rate_limit", "rate_limit_submit", "trusted_proxies", "proxy_header", "cors_origins"),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
store_option = click.option("--store", metavar="URL", help="The store, as a URL or a path. [LANGLAUF_STORE]")


class ExitCode(IntEnum):
    """Exit codes of commands, as docs/commands.md lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CANCELED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    NOT_ALLOWED = 6
    CONFLICT = 7
    TIMEOUT = 124
    DETACHED = 130


class CommandError(click.ClickException):
    """Ends the command with a message and next steps on standard error, and an exit code."""

    def __init__(self, message: str, *hints: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.hints = hints
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: Any = None) -> None:
        """Print the message and the next steps on standard error."""
        for line in (f"langlauf: {self.format_message()}", *(f"  {hint}" for hint in self.hints)):
            click.echo(escaped_lines(line), err=True, file=file)


@contextmanager
def errors_end_command(conflict: type[LanglaufError] | tuple[()] = ()) -> Iterator[None]:
    """Turn an error of Langlauf into the end of the command; one of the class `conflict` has its own exit code."""
    try:
        yield
    except LanglaufError as error:
        code = ExitCode.CONFLICT if isinstance(error, conflict) else ExitCode.FAILED
        raise CommandError(str(error), code=code) from None


def flag_of(setting: Setting) -> str:
    """Return the flag of a setting: LANGLAUF_MAX_RUNNING is --max-running."""
    return "--" + setting.environment.removeprefix("LANGLAUF_").lower().replace("_", "-")


def _option(setting: Setting) -> Callable[[F], F]:
    names = [flag_of(setting), setting.name]
    if setting.name == "store_file":
        names.insert(1, "--store-file")
    shown = "" if setting.default in (None, (), {}, False) else f" Default: {_default_text(setting)}."
    text = f"{setting.help} [{setting.environment}]{shown}"
    return click.option(*names, default=None, metavar=setting.unit.upper(), help=text)


def _default_text(setting: Setting) -> str:
    """Return a default as the flag takes it: 7d, not 604800.0."""
    if isinstance(setting.default, tuple):
        return ",".join(map(_duration_text, setting.default))
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return _duration_text(setting.default) if setting.unit == "duration" else str(setting.default)


def _duration_text(seconds: float) -> str:
    units = {"d": 86_400, "h": 3_600, "m": 60}
    return next(
        (f"{seconds / size:g}{unit}" for unit, size in units.items() if seconds and not seconds % size), f"{seconds:g}s"
    )


def settings_options(*names: str) -> Callable[[F], F]:
    """Add a flag for each of these settings to a command."""

    def add(function: F) -> F:
        for name in reversed(names):
            function = _option(BY_NAME[name])(function)
        return function

    return add


def server_options(function: F) -> F:
    """Add a flag for every setting of a server."""
    others = (*CLIENT_SETTINGS, "metrics_port")
    return settings_options(*(setting.name for setting in SETTINGS if setting.name not in others))(function)


def worker_options(function: F) -> F:
    """Add a flag for every setting of a worker."""
    others = (*CLIENT_SETTINGS, *API_SETTINGS)
    return settings_options(*(setting.name for setting in SETTINGS if setting.name not in others))(function)


def read_settings(environment: dict[str, str] | None = None, **flags: Any) -> Settings:
    """Return the settings from environment and flags; an invalid one ends the command."""
    with errors_end_command():
        return load_settings(environment, **flags)


def duration_option(flag: str, text: str) -> Callable[[F], F]:
    """Return a flag that takes seconds or a value like 30m."""
    return click.option(flag, callback=_parse_duration, metavar="DURATION", help=text)


def _parse_duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


def time_option(flag: str, text: str) -> Callable[[F], F]:
    """Return a flag that takes a time; without a zone it is one of this machine."""
    return click.option(flag, callback=_parse_time, metavar="TIME", help=text)


def _parse_time(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else parse_time(value, datetime.now().astimezone())
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


_CLOCK = re.compile(r"(?:(today|tomorrow)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?")
_FROM_NOW = re.compile(r"[0-9.]+\s*[smhd]")


def parse_time(text: str, now: datetime) -> datetime:
    """Return the time of `18:30`, `tomorrow 6:00`, `2h` from now, `2027-01-31 06:00` or RFC 3339.

    A time of day alone is the next one; without a zone a time is one of this machine.
    """
    words = text.strip().lower()
    if match := _CLOCK.fullmatch(words):
        day, *clock = match.groups()
        hour, minute, second = (int(part or 0) for part in clock)
        local = now.replace(tzinfo=None, hour=hour, minute=minute, second=second, microsecond=0)
        if day == "tomorrow" or (day is None and local <= now.replace(tzinfo=None)):
            local += timedelta(days=1)
        return local.astimezone()
    if _FROM_NOW.fullmatch(words):
        return now + timedelta(seconds=parse_duration(words))
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        raise ValueError("give a time like 18:30, tomorrow 6:00, 2h or 2027-01-31 06:00") from None


# -- output ------------------------------------------------------------------------------------------------------------

#: Control and direction characters that JSON may hold unescaped. They occur in its strings alone, where an escape means
#: the same.
_TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def json_text(value: Any) -> bytes:
    """Return indented JSON in which terminal control characters are escaped."""
    return msgspec.json.format(json_line(value), indent=2)


def json_line(value: Any) -> bytes:
    """Return JSON on one line in which terminal control characters are escaped."""
    text = msgspec.json.encode(value).decode()
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text).encode()


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(json_text(value))


def print_note(text: str) -> None:
    """Print a line for people on standard error."""
    click.echo(escaped_lines(text), err=True)


def plain(text: str | None) -> str:
    """Return foreign text on one line, with terminal control characters escaped."""
    return escaped(text or "")


def command_line(*words: str) -> str:
    """Return a command to type next, with the --url and --org of this one; never with the key."""
    context = click.get_current_context(silent=True)
    given = context.params if context else {}
    flags = [part for name in ("url", "org") if given.get(name) for part in (f"--{name}", str(given[name]))]
    return shlex.join(["langlauf", *words, *flags])


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns on standard output; nothing is truncated, so that ids can be copied."""
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def format_time(time: datetime | Instant | None) -> str:
    """Return a time to the second in the zone of this machine, which is named; nothing for None."""
    if isinstance(time, int):
        time = to_datetime(time)
    return "" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S %Z}"


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal's standard error; yields the function that moves it (step, done, total)."""
    from rich.console import Console  # takes longer to import than most commands to run
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title)
        yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total)
