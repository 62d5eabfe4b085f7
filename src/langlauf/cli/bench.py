"""`langlauf bench`: what this machine can do, every figure beside one of the same run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from langlauf.cli.options import Stopped
from langlauf.domain.errors import LanglaufError

_STDOUT = "-"
_NAMES = ("lifecycle", "http", "polls")


class _Sizes(click.ParamType[tuple[int, ...]]):
    """Numbers with commas between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(word.replace("_", "")) for word in str(value).split(","))
        except ValueError:
            sizes = ()
        if not sizes or min(sizes) < 1:
            self.fail(f"{value!r}: give numbers over 0 with commas between them, like 1000,1000000", param, ctx)
        return sizes


@click.command()
@click.option("--jobs", type=click.IntRange(1), default=2_000, show_default=True, help="Jobs per round, and over HTTP.")
@click.option("--concurrency", type=click.IntRange(1), default=64, show_default=True, help="Jobs in flight.")
@click.option("--clients", type=click.IntRange(1), default=32, show_default=True, help="Clients over HTTP.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds; medians are shown.")
@click.option(
    "--history",
    "histories",
    type=_Sizes(),
    default="1000,1000000",
    show_default=True,
    help="Finished jobs in the stores that are polled; a million take 4 GB and a minute or two to fill.",
)
@click.option("--only", type=click.Choice(_NAMES), multiple=True, help="One measurement alone; may be repeated.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where the stores are made, and removed: the disk that is measured. Default: here.",
)
@click.option(
    "--json",
    "json_to",
    is_flag=False,
    flag_value=_STDOUT,
    metavar="[FILE]",
    help="JSON instead of the table, or in a file beside it.",
)
@click.option("--markdown", is_flag=True, help="The table as Markdown.")
def bench(folder: Path, json_to: str | None, markdown: bool, only: tuple[str, ...], **sizes: Any) -> None:
    """Measure this machine: the raw ceiling of SQLite, the store, HTTP, and polls beside a long history."""
    from langlauf.bench.suite import Plan, run

    plan = Plan(**sizes, names=only or _NAMES)
    try:
        with _progress() as progress:
            report = run(plan, folder, lambda name: _watch(progress, name))
    except (LanglaufError, OSError) as error:
        raise Stopped(str(error)) from error
    _show(report, json_to, markdown)


def _show(report: Any, json_to: str | None, markdown: bool) -> None:
    from langlauf.bench.report import as_json, as_markdown, print_table

    if json_to is not None and json_to != _STDOUT:
        Path(json_to).write_text(as_json(report) + "\n", "utf-8")
    if json_to == _STDOUT:
        click.echo(as_json(report))
    elif markdown:
        click.echo(as_markdown(report))
    else:
        print_table(report)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)


def _watch(progress: Progress, name: str) -> Callable[[int, int], None]:
    task = progress.add_task(name, total=None)
    return lambda done, total: progress.update(task, completed=done, total=total)
