"""`langlauf serve`: the API in this process, each worker in one of its own."""

import asyncio
import ipaddress
import os
import socket
from pathlib import Path
from typing import Any

import click

from langlauf import app as application
from langlauf.app import Langlauf
from langlauf.bootstrap import open_store
from langlauf.cli.interpreter import freeze_garbage
from langlauf.cli.options import Stopped, read_settings, server_options
from langlauf.cli.stopping import run, running_until_stopped
from langlauf.domain.errors import LanglaufError
from langlauf.hints import Hints
from langlauf.server.program import Server, make_server
from langlauf.settings import BY_NAME, Settings, forget_secrets
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.tools.location import PostgresPlace, place_of
from langlauf.telemetry.log import set_up_logging

BUNDLED = "langlauf.bundled:app"


@click.command()
@click.argument("target", metavar="[MODULE:APP]", default=BUNDLED)
@click.option(
    "--allow-open",
    is_flag=True,
    help="Listen beyond this machine, and to any name, although nobody is asked for a key.",
)
@server_options
def serve(target: str, allow_open: bool, **flags: Any) -> None:
    """Serve an application: its API and its workers. Without MODULE:APP, the bundled analyses."""
    settings = read_settings(**flags)
    set_up_logging(settings.log_format, settings.log_level)
    refuse_open_bind(settings, allow_open)
    forget_secrets(settings)
    if settings.address_table:  # read where it is used, by the bundled analysis, wherever that runs
        os.environ[BY_NAME["address_table"].environment] = settings.address_table
    app = load_app(target)
    app.use(settings, target)

    def stopping() -> None:
        if app.runtime is not None:
            app.runtime.hints.close()

    listening = listen(settings.host, settings.port)
    server = make_server(
        app.asgi(), settings, started=lambda url: _welcome(url, app), stopping=stopping, any_name=allow_open
    )
    run(_serve(app, server, listening))


def listen(host: str, port: int, flag: str = "--port") -> socket.socket:
    """The socket, taken before anything is opened: a port in use costs nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Stopped(f"cannot listen on {host}:{port}: {error.strerror}; try {flag}") from error


async def _serve(app: Langlauf, server: Server, listening: socket.socket) -> None:
    """Serves until a signal; then connections are closed while the workers finish or give back what they run."""
    async with running_until_stopped(app, server.stop):
        if app.runtime is not None:
            access = app.runtime.services.access
            await access.refresh()  # what is offered to try depends on it
            access.forget()  # the first request looks for itself
        freeze_garbage()
        await server.serve([listening])


def load_app(target: str) -> Langlauf:
    """The application that `module:name` names."""
    try:
        return application.load_app(target)
    except LanglaufError as error:
        raise Stopped(str(error)) from error


def refuse_open_bind(settings: Settings, allow_open: bool) -> None:
    """Without a token or a key everybody who reaches the server may use it: that is for this machine alone."""
    if allow_open or not open_to_others(settings):
        return
    raise Stopped(
        f"{settings.host} is reachable from other machines, no API_AUTH_TOKEN is set and the store has no keys; "
        "make one with `langlauf keys create --org ORG`, set a token, listen on 127.0.0.1, or say --allow-open"
    )


def open_to_others(settings: Settings) -> bool:
    """Whether other machines would reach what is served, and nobody be asked for a key."""
    return not (settings.auth_token or _is_loopback(settings.host) or _has_keys(settings))


def _has_keys(settings: Settings) -> bool:
    """Whether the store, if it is there already, asks for keys."""
    try:
        place = place_of(settings.store_path)
        there = isinstance(place, PostgresPlace) or (place.path != MEMORY and Path(place.path).exists())
        return there and asyncio.run(_keys_in(settings))
    except LanglaufError as error:
        raise Stopped(str(error)) from error


async def _keys_in(settings: Settings) -> bool:
    store = await open_store(settings, Hints())
    try:
        return (await store.access.key_changes(0)).version > 0
    finally:
        await store.close()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _welcome(url: str, app: Langlauf) -> None:
    """What to open and what to try, for a person at the terminal."""
    names = ", ".join(app.registry.names)
    click.echo(f"Langlauf serves {names} on {url}", err=True)
    click.echo(f"  open   {url}/", err=True)
    example = _example(app)
    if example:
        is_open = app.runtime is None or app.runtime.services.access.open
        # In double quotes: the shell puts the key in.
        key = "" if is_open else ' -H "Authorization: Bearer $LANGLAUF_KEY"'
        click.echo(f"  try    curl -s {url}{app.api_prefix}{key} --json '{example}'", err=True)
    click.echo("  stop   Ctrl-C", err=True)
    if app.runtime is not None and app.runtime.services.access.without_operator:
        click.echo("  note   no key can read /metrics or /ops; set API_AUTH_TOKEN to read them", err=True)


def _example(app: Langlauf) -> str | None:
    analysis = app.registry.get(app.registry.default or "")
    if analysis is None or "query" not in analysis.input_type.__struct_fields__:
        return None
    return '{"query": "Bahnhofstrasse 1, 9000 St. Gallen"}'
