"""`langlauf bench`: measure how fast a store is on this disk or on this database server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from langlauf.cli.options import CommandError
from langlauf.domain.errors import LanglaufError

_STDOUT = "-"
_POSTGRES = ("postgresql://", "postgres://")


@click.command()
@click.option(
    "--store",
    "server",
    metavar="URL",
    help="A PostgreSQL server (postgresql://…) where databases are created and dropped. Default: SQLite.",
)
@click.option("--jobs", type=click.IntRange(1), default=2_000, show_default=True, help="Jobs per round.")
@click.option("--concurrency", type=click.IntRange(1), default=64, show_default=True, help="Jobs in flight.")
@click.option("--clients", type=click.IntRange(1), default=32, show_default=True, help="Clients over HTTP.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds; medians are shown.")
@click.option(
    "--only", type=click.Choice(("store", "http")), multiple=True, help="Only this measurement; may be repeated."
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder for the stores, which are removed again: the disk to measure. Default: the current one.",
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
def bench(
    server: str | None, folder: Path, json_to: str | None, markdown: bool, only: tuple[str, ...], **sizes: Any
) -> None:
    """Measure the throughput of a store. On this disk or server, by itself and over HTTP."""
    from langlauf.bench.report import as_json, heading, lines_of, show_lines
    from langlauf.bench.suite import NAMES, BenchPlan, run

    if server is not None and not server.startswith(_POSTGRES):
        raise click.BadParameter(
            "give postgresql://…; SQLite is measured without it, in --folder", param_hint="--store"
        )
    try:
        with _progress() as progress:
            report = run(
                BenchPlan(**sizes, names=only or NAMES), server, folder, lambda name: _task_updater(progress, name)
            )
    except (LanglaufError, OSError) as error:
        raise CommandError(str(error)) from error
    if json_to is not None and json_to != _STDOUT:
        Path(json_to).write_text(as_json(report) + "\n", "utf-8")
    if json_to == _STDOUT:
        click.echo(as_json(report))
    else:
        show_lines(heading(report), lines_of(report), markdown=markdown)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)


def _task_updater(progress: Progress, name: str) -> Callable[[int, int], None]:
    task = progress.add_task(name, total=None)
    return lambda done, total: progress.update(task, completed=done, total=total)
