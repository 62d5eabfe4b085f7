"""What all client commands share: the server's flags, `--json`, durations, and the client they work with."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from langlauf.cli.client_errors import exit_codes
from langlauf.cli.options import CLIENT_SETTINGS, settings_options
from langlauf.client import Client
from langlauf.settings import duration

F = TypeVar("F", bound=Callable[..., Any])


def duration_option(flag: str, text: str) -> Callable[[F], F]:
    """A flag that takes seconds or a value like 30m."""
    return click.option(flag, callback=_seconds, metavar="DURATION", help=text)


def _seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


timeout_option = duration_option("--timeout", "Stop waiting after this time, exit 124; the job goes on.")


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    """Makes a function a client command: it gets a client first, and its errors become exit codes."""

    @functools.wraps(function)
    def command(*, url: str | None, org: str | None, key: str | None, **values: Any) -> None:
        with exit_codes(), Client(url, org, key) as client:
            function(client, **values)

    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)
    return settings_options(*CLIENT_SETTINGS)(command)
