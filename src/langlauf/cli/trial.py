"""`langlauf demo` and `bench`: try Langlauf out on this machine, and measure its disk or database server."""

import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from langlauf.cli.options import CommandError, read_settings
from langlauf.cli.process import run
from langlauf.cli.serve import BUNDLED, listen, local_url, open_in_browser, prepare, serve_until_stopped
from langlauf.client import Client, errors
from langlauf.domain.errors import LanglaufError
from langlauf.telemetry.log import set_up_logging

# -- demo --------------------------------------------------------------------------------------------------------------

#: Analysis and input of each job. The last one fails, for a reason that its page explains.
_JOBS: tuple[tuple[str, dict[str, object]], ...] = (
    ("address", {"query": "Bundesplatz 3, 3005 Bern", "intelligence_mode": "risk"}),
    ("clustering", {"table": "width,height\n" + "\n".join(f"{n % 3 * 9 + n % 2},{n % 3 * 7 + n}" for n in range(30))}),
    ("address", {"query": "Bundesplatz 3, 3005 Bren"}),
)
_START_SECONDS = 60.0


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8080, show_default=True, help="The port, or a free one."
)
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def demo(port: int, no_browser: bool) -> None:
    """Try it in your browser: a server with three jobs.

    One of the jobs fails, and its page says why. The server listens on this machine alone. Its store is temporary, and
    removed when Ctrl-C ends it.
    """
    with tempfile.TemporaryDirectory(prefix="langlauf-demo-") as folder:
        settings = read_settings({}, store=str(Path(folder) / "demo.db"), log_level="error", shutdown_grace="0")
        set_up_logging(settings.log_format, settings.log_level)
        listening = _listen(settings.host, port)
        app = prepare(settings, BUNDLED)
        app.use(settings, BUNDLED)
        url = local_url(listening)
        Thread(target=_show, args=(url, not no_browser), daemon=True).start()
        run(serve_until_stopped(app, listening, allow_open=False))


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the port, or on a free one where that is taken."""
    try:
        return listen(host, port)
    except CommandError:
        return listen(host, 0)


def _show(url: str, in_browser: bool) -> None:
    """Submit the jobs, and open the page of the first."""
    try:
        with Client(url, timeout=_START_SECONDS) as client:
            jobs = [client.submit(analysis, values) for analysis, values in _JOBS]
    except errors.ClientError as error:
        click.echo(f"The jobs of the demo were not started: {error}", err=True)
        return
    click.echo("Three jobs were started; one of them fails, and its page says why:", err=True)
    for (analysis, _), job in zip(_JOBS, jobs, strict=True):
        fails = "  (fails)" if job is jobs[-1] else ""
        click.echo(f"  {analysis:<11}{job.url}{fails}", err=True)
    if in_browser:
        open_in_browser(jobs[0].url)


# -- bench -------------------------------------------------------------------------------------------------------------

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
    from langlauf.bench.rounds import as_json, heading, lines_of, show_lines
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
