"""`langlauf serve`, `worker` and `openapi`: run an application, or print its API.

`serve` runs the API in this process and each worker in a child process; `worker` runs workers alone.
"""

import asyncio
import json
import os
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import click

from langlauf import app as application
from langlauf.api.openapi.document import build_document
from langlauf.app import Langlauf
from langlauf.bootstrap import open_store
from langlauf.cli.interpreter import freeze_garbage
from langlauf.cli.options import CommandError, read_settings, server_options, worker_options
from langlauf.cli.process import run, running_until_stopped
from langlauf.domain.errors import LanglaufError
from langlauf.domain.ssrf import is_loopback
from langlauf.hints import Hints
from langlauf.server.program import make_server
from langlauf.settings import BY_NAME, Settings, forget_secrets
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.tools.location import PostgresLocation, parse_location
from langlauf.telemetry.log import set_up_logging

BUNDLED = "langlauf.bundled:app"


@click.command()
@click.argument("target", metavar="[MODULE:APP]", default=BUNDLED)
@click.option(
    "--allow-open",
    is_flag=True,
    help="Serve other machines without keys: everyone who reaches the port may do everything.",
)
@click.option("--open", "in_browser", is_flag=True, help="Open the start page in the browser.")
@server_options
def serve(target: str, allow_open: bool, in_browser: bool, **flags: Any) -> None:
    """Serve an application: its API and its workers. Without MODULE:APP, the bundled analyses."""
    settings = read_settings(**flags)
    set_up_logging(settings.log_format, settings.log_level)
    refuse_open_bind(settings, allow_open)
    refuse_processes(settings)
    listening = listen(settings.host, settings.port)
    if in_browser:
        # Connections wait from now on until the server takes them.
        Thread(target=open_in_browser, args=(local_url(listening),), daemon=True).start()
    if settings.processes > 1:
        environment = dict(os.environ)
        forget_secrets(settings)
        run(_serve_in_processes(settings.processes, target, flags, allow_open, environment, listening))
    else:
        app = prepare(settings, target)
        app.use(settings, target)
        run(serve_until_stopped(app, listening, allow_open=allow_open))


def local_url(listening: socket.socket) -> str:
    """Return the address of a server for a browser of this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def open_in_browser(url: str) -> None:
    """Open a page in the browser, or say that there is none."""
    if not webbrowser.open(url):
        click.echo(f"No browser was found; open {url} yourself.", err=True)


def prepare(settings: Settings, target: str) -> Langlauf:
    """Return the application, loaded without the operator's secrets in the environment."""
    forget_secrets(settings)
    if settings.address_table:  # the bundled analysis reads it, in any process
        os.environ[BY_NAME["address_table"].environment] = settings.address_table
    return load_app(target)


def refuse_processes(settings: Settings) -> None:
    """End the command if several API processes would share a store that only one process at a time can write."""
    if settings.processes > 1 and not isinstance(parse_location(settings.store_path), PostgresLocation):
        raise CommandError(
            "--processes needs PostgreSQL: SQLite has one writer at a time, so that further processes would wait for "
            "each other; set LANGLAUF_STORE=postgresql://… or leave --processes out"
        )


def listen(host: str, port: int, flag: str = "--port") -> socket.socket:
    """Return the listening socket. It is bound first: a port in use then fails before a store is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}; try {flag}") from error


async def _serve_in_processes(
    count: int,
    target: str,
    flags: Mapping[str, Any],
    allow_open: bool,
    environment: Mapping[str, str],
    listening: socket.socket,
) -> None:
    from langlauf.cli.api_supervisor import ApiSupervisor  # only this way of serving needs it

    await ApiSupervisor(count, target, flags, allow_open=allow_open, environment=environment, listening=listening).run()


async def serve_until_stopped(
    app: Langlauf,
    listening: socket.socket,
    *,
    allow_open: bool,
    welcome: bool = True,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal; then close connections while the workers finish or release their attempts."""

    def on_start(url: str) -> None:
        if welcome:
            _welcome(url, app)
        started()

    def on_stop() -> None:
        if app.runtime is not None:
            app.runtime.hints.close()

    server = make_server(app.asgi(), app.settings, started=on_start, stopping=on_stop, any_host=allow_open)
    async with running_until_stopped(app, server.stop):
        if app.runtime is not None:
            access = app.runtime.services.authenticator
            await access.refresh()  # the welcome text depends on it
            access.forget()  # the first request reads it again
        freeze_garbage()
        await server.serve([listening])


def load_app(target: str) -> Langlauf:
    """Return the application that `module:name` names."""
    try:
        return application.load_app(target)
    except LanglaufError as error:
        raise CommandError(str(error)) from error


def refuse_open_bind(settings: Settings, allow_open: bool) -> None:
    """End the command if the server could be reached from other machines without a token or a key."""
    if allow_open or not open_to_others(settings):
        return
    raise CommandError(
        f"{settings.host} is reachable from other machines, no API_AUTH_TOKEN is set and the store has no keys; "
        "create a key with `langlauf keys create --org ORG`, set a token, listen on 127.0.0.1, or give --allow-open"
    )


def open_to_others(settings: Settings) -> bool:
    """Whether other machines could reach the server without a token or a key."""
    return not (settings.auth_token or is_loopback(settings.host) or _has_keys(settings))


def _has_keys(settings: Settings) -> bool:
    """Whether the store exists and has keys."""
    try:
        place = parse_location(settings.store_path)
        there = isinstance(place, PostgresLocation) or (place.path != MEMORY and Path(place.path).exists())
        return there and asyncio.run(_keys_in(settings))
    except LanglaufError as error:
        raise CommandError(str(error)) from error


async def _keys_in(settings: Settings) -> bool:
    store = await open_store(settings, Hints())
    try:
        return (await store.access.key_changes(0)).version > 0
    finally:
        await store.close()


def _welcome(url: str, app: Langlauf) -> None:
    """Print the URL, a command to try, and how to stop."""
    names = ", ".join(app.registry.names)
    click.echo(f"Langlauf serves {names} on {url}", err=True)
    click.echo(f"  open   {url}/", err=True)
    example = _example(app)
    if example:
        is_open = app.runtime is None or app.runtime.services.authenticator.open
        # In double quotes: the shell expands the variable.
        key = "" if is_open else ' -H "Authorization: Bearer $LANGLAUF_KEY"'
        click.echo(f"  try    curl -s {url}{app.api_prefix}{key} --json '{example}'", err=True)
    click.echo("  stop   Ctrl-C", err=True)
    if app.runtime is not None and app.runtime.services.authenticator.without_operator:
        click.echo("  note   no key can read /metrics or see all orgs: set API_AUTH_TOKEN, start again", err=True)


def _example(app: Langlauf) -> str | None:
    analysis = app.registry.get(app.registry.default or "")
    if analysis is None or "query" not in analysis.input_type.__struct_fields__:
        return None
    return '{"query": "Bahnhofstrasse 1, 9000 St. Gallen"}'


@click.command()
@click.argument("target", metavar="MODULE:APP")
@worker_options
def worker(target: str, **flags: Any) -> None:
    """Run the jobs of an application without its API. --metrics-port serves metrics and health checks."""
    settings = read_settings(**flags)
    set_up_logging(settings.log_format, settings.log_level)
    listening = _listen_for_metrics(settings)
    forget_secrets(settings)
    app = load_app(target)
    app.use(settings, target)
    run(_work(app, listening))


def _listen_for_metrics(settings: Settings) -> socket.socket | None:
    """Return the socket for metrics, or None. Beyond this machine, metrics require a token or a key."""
    if settings.metrics_port is None:
        return None
    if open_to_others(settings):
        raise CommandError(
            f"{settings.host} is reachable from other machines, no API_AUTH_TOKEN is set and the store has no keys; "
            "set a token, or serve metrics on 127.0.0.1"
        )
    return listen(settings.host, settings.metrics_port, "--metrics-port")


async def _work(app: Langlauf, listening: socket.socket | None) -> None:
    """Run jobs until a signal; attempts may finish within the grace period, then they are released."""
    stop = asyncio.Event()
    async with running_until_stopped(app, stop.set):
        freeze_garbage()
        click.echo(f"Langlauf runs jobs of {', '.join(app.registry.names)}", err=True)
        async with _serving_metrics(app, listening):
            await stop.wait()


@asynccontextmanager
async def _serving_metrics(app: Langlauf, listening: socket.socket | None) -> AsyncIterator[None]:
    """Serve metrics and health checks while the block lasts."""
    if listening is None:
        yield
        return

    def started(url: str) -> None:
        click.echo(f"Langlauf serves metrics on {url}/metrics", err=True)

    server = make_server(app.system_asgi(), app.settings, started=started, stopping=lambda: None)
    serving = asyncio.create_task(server.serve([listening]), name="langlauf-metrics")
    try:
        yield
    finally:
        server.stop()
        await serving


@click.command()
@click.argument("target", metavar="[MODULE:APP]", default=BUNDLED)
def openapi(target: str) -> None:
    """Print the OpenAPI 3.1 document of an application. Without MODULE:APP, of the bundled analyses."""
    app = load_app(target)
    click.echo(json.dumps(build_document(app.registry, app.api_prefix), indent=2, ensure_ascii=False))
