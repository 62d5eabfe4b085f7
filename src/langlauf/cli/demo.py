"""`langlauf demo`: a server with three jobs, of which one fails, on a store that goes away with it."""

import socket
import tempfile
from pathlib import Path
from threading import Thread

import click

from langlauf.cli.options import CommandError, read_settings
from langlauf.cli.process import run
from langlauf.cli.serve import BUNDLED, listen, local_url, open_in_browser, prepare, serve_until_stopped
from langlauf.client import Client, errors
from langlauf.telemetry.log import set_up_logging

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
