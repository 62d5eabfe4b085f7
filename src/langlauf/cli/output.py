"""What commands print: results and tables on standard output, messages and hints on standard error."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
import msgspec

from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.text import escaped, escaped_lines

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
