"""`langlauf worker`: workers alone, beside servers that share the store."""

import asyncio
import signal
from typing import Any

import click
import uvloop

from langlauf.app import Langlauf
from langlauf.cli.options import read_settings, server_options
from langlauf.cli.serve import load_app
from langlauf.telemetry import set_up_logging


@click.command()
@click.argument("target", metavar="MODULE:APP")
@server_options
def worker(target: str, **flags: Any) -> None:
    """Run the jobs of an application without serving HTTP."""
    settings = read_settings(**flags)
    set_up_logging(settings.log_format, settings.log_level)
    app = load_app(target)
    app.use(settings)
    uvloop.run(_work(app))


async def _work(app: Langlauf) -> None:
    """Works until a signal to stop; attempts may finish within the grace, then they are given back."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with app.lifespan():
        click.echo(f"Langlauf works on {', '.join(app.registry.names)}", err=True)
        await stop.wait()
