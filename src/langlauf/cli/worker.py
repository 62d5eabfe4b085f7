"""`langlauf worker`: workers alone, beside servers that share the store."""

import asyncio
from typing import Any

import click

from langlauf.app import Langlauf
from langlauf.cli.options import read_settings, server_options
from langlauf.cli.serve import load_app
from langlauf.cli.stopping import run, running_until_stopped
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
    run(_work(app))


async def _work(app: Langlauf) -> None:
    """Works until a signal to stop; attempts may finish within the grace, then they are given back."""
    stop = asyncio.Event()
    async with running_until_stopped(app, stop.set):
        click.echo(f"Langlauf works on {', '.join(app.registry.names)}", err=True)
        await stop.wait()
