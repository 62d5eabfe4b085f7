"""`langlauf worker`: workers alone, beside servers that share the store."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from langlauf.app import Langlauf
from langlauf.cli.interpreter import freeze_garbage
from langlauf.cli.options import Stopped, read_settings, server_options
from langlauf.cli.serve import listen, load_app, open_to_others
from langlauf.cli.stopping import run, running_until_stopped
from langlauf.server.program import make_server
from langlauf.settings import Settings, forget_secrets
from langlauf.telemetry.log import set_up_logging


@click.command()
@click.argument("target", metavar="MODULE:APP")
@server_options
def worker(target: str, **flags: Any) -> None:
    """Run the jobs of an application without serving HTTP, but for metrics and health where --metrics-port is given."""
    settings = read_settings(**flags)
    set_up_logging(settings.log_format, settings.log_level)
    listening = _listen(settings)
    forget_secrets(settings)
    app = load_app(target)
    app.use(settings, target)
    run(_work(app, listening))


def _listen(settings: Settings) -> socket.socket | None:
    """Where metrics are served, if anywhere. They are for operators: beyond this machine whoever asks shows a token."""
    if settings.metrics_port is None:
        return None
    if open_to_others(settings):
        raise Stopped(
            f"{settings.host} is reachable from other machines, no API_AUTH_TOKEN is set and the store has no keys; "
            "set a token, or serve metrics on 127.0.0.1"
        )
    return listen(settings.host, settings.metrics_port, "--metrics-port")


async def _work(app: Langlauf, listening: socket.socket | None) -> None:
    """Works until a signal to stop; attempts may finish within the grace, then they are given back."""
    stop = asyncio.Event()
    async with running_until_stopped(app, stop.set):
        freeze_garbage()
        click.echo(f"Langlauf works on {', '.join(app.registry.names)}", err=True)
        async with _serving_metrics(app, listening):
            await stop.wait()


@asynccontextmanager
async def _serving_metrics(app: Langlauf, listening: socket.socket | None) -> AsyncIterator[None]:
    """Answers those who watch while the block lasts."""
    if listening is None:
        yield
        return

    def started(url: str) -> None:
        click.echo(f"Langlauf tells of it on {url}/metrics", err=True)

    server = make_server(app.system_asgi(), app.settings, started=started, stopping=lambda: None)
    serving = asyncio.create_task(server.serve([listening]), name="langlauf-metrics")
    try:
        yield
    finally:
        server.stop()
        await serving
