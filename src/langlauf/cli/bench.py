"""`langlauf bench`: what this machine can do, every figure beside one of the same run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from langlauf.bench.plan import ON_POSTGRES, ON_SQLITE, Plan
from langlauf.cli.options import Stopped
from langlauf.domain.errors import LanglaufError

_STDOUT = "-"
_POSTGRES = ("postgresql://", "postgres://")


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
@click.option(
    "--store",
    "server",
    metavar="URL",
    help="A PostgreSQL server (postgresql://…) on which databases are made, and dropped. Default: SQLite.",
)
@click.option("--jobs", type=click.IntRange(1), default=2_000, show_default=True, help="Jobs per round, and over HTTP.")
@click.option("--concurrency", type=click.IntRange(1), default=64, show_default=True, help="Jobs in flight.")
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes that share the jobs in flight, each with a store of its own. PostgreSQL only.",
)
@click.option(
    "--orgs", type=click.IntRange(1), default=1, show_default=True, help="Orgs that submit in turn. PostgreSQL only."
)
@click.option(
    "--clients", type=click.IntRange(1), default=32, show_default=True, help="Clients over HTTP. SQLite only."
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds; medians are shown.")
@click.option(
    "--history",
    "histories",
    type=_Sizes(),
    default="1000,1000000",
    show_default=True,
    help="Finished jobs in the stores that are polled; a million take 2 GB and a minute or two to fill.",
)
@click.option(
    "--backlog",
    "backlogs",
    type=_Sizes(),
    default="1000,5000000",
    show_default=True,
    help="Waiting jobs beside which is claimed; a million take 0.6 GB, on PostgreSQL 1.5, and a minute to fill.",
)
@click.option(
    "--taken",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Jobs that are taken without a vacuum. PostgreSQL only.",
)
@click.option(
    "--only",
    type=click.Choice(tuple(dict.fromkeys((*ON_SQLITE, *ON_POSTGRES)))),
    multiple=True,
    help="One measurement alone; may be repeated.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where the stores are made, and removed: the disk that is measured. Default: here.",
)
@click.option(
    "--capacity",
    "known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Measure nothing: compute from the JSON of an earlier run what a deployment carries, and what it needs.",
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
    server: str | None,
    folder: Path,
    known: Path | None,
    json_to: str | None,
    markdown: bool,
    only: tuple[str, ...],
    **sizes: Any,
) -> None:
    """Measure this machine: the raw ceiling of a store, the store, and its costs beside much that waits or ended."""
    try:
        if known is not None:
            _compute(known, markdown)
            return
        plan = Plan(**sizes, names=_names(server, only))
        with _progress() as progress:
            report = _run(plan, server, folder, lambda name: _watch(progress, name))
    except (LanglaufError, OSError) as error:
        raise Stopped(str(error)) from error
    _show(report, json_to, markdown)


def _names(server: str | None, only: tuple[str, ...]) -> tuple[str, ...]:
    if server is not None and not server.startswith(_POSTGRES):
        raise click.BadParameter(
            "give postgresql://…; SQLite is measured without it, in --folder", param_hint="--store"
        )
    there = ON_SQLITE if server is None else ON_POSTGRES
    if wrong := [name for name in only if name not in there]:
        words = "with --store postgresql://…" if server is None else "on SQLite, without --store"
        raise click.BadParameter(f"{wrong[0]} is measured {words}", param_hint="--only")
    return only or there


def _run(plan: Plan, server: str | None, folder: Path, watcher: Callable[[str], Callable[[int, int], None]]) -> Any:
    if server is None:
        from langlauf.bench.suite import run

        return run(plan, folder, watcher)
    try:
        from langlauf.bench.postgres.suite import run_on_postgres
    except ModuleNotFoundError as error:
        raise LanglaufError(f"PostgreSQL needs the package {error.name}: install langlauf[postgres]") from error

    return run_on_postgres(plan, server, watcher)


def _compute(known: Path, markdown: bool) -> None:
    from langlauf.bench.asking import asked_in
    from langlauf.bench.report import show_lines

    show_lines(*asked_in(known), markdown=markdown)


def _show(report: Any, json_to: str | None, markdown: bool) -> None:
    from langlauf.bench.report import as_json, heading, lines_of, show_lines

    if json_to is not None and json_to != _STDOUT:
        Path(json_to).write_text(as_json(report) + "\n", "utf-8")
    if json_to == _STDOUT:
        click.echo(as_json(report))
    else:
        show_lines(heading(report), lines_of(report), markdown=markdown)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)


def _watch(progress: Progress, name: str) -> Callable[[int, int], None]:
    task = progress.add_task(name, total=None)
    return lambda done, total: progress.update(task, completed=done, total=total)
