"""Flags made from the table of settings, so that a flag and its environment name cannot drift apart."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from langlauf.domain.errors import SettingsError
from langlauf.domain.text import escaped_lines
from langlauf.settings import BY_NAME, SETTINGS, Setting, Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])
#: Settings of the client commands; a server has no use for them.
CLIENT_SETTINGS = ("url", "org", "key")
STORE_SETTINGS = ("store", "store_file")


class Stopped(click.ClickException):
    """Ends the program with a message and exit code 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Prints the message, on standard error."""
        click.echo(escaped_lines(f"langlauf: {self.format_message()}"), err=True, file=file)


def flag_of(setting: Setting) -> str:
    """LANGLAUF_MAX_RUNNING is --max-running."""
    return "--" + setting.environment.removeprefix("LANGLAUF_").lower().replace("_", "-")


def _option(setting: Setting) -> Callable[[F], F]:
    names = [flag_of(setting), setting.name]
    if setting.name == "store_file":
        names.insert(1, "--store-file")
    shown = "" if setting.default in (None, (), False) else f" Default: {setting.default}."
    text = f"{setting.help} [{setting.environment}]{shown}"
    return click.option(*names, default=None, metavar=setting.unit.upper(), help=text)


def settings_options(*names: str) -> Callable[[F], F]:
    """Adds flags for these settings to a command."""

    def add(function: F) -> F:
        for name in reversed(names):
            function = _option(BY_NAME[name])(function)
        return function

    return add


def server_options(function: F) -> F:
    """Adds a flag for every setting of a server."""
    return settings_options(*(setting.name for setting in SETTINGS if setting.name not in CLIENT_SETTINGS))(function)


def read_settings(**flags: Any) -> Settings:
    """The settings from environment and flags; a bad one ends the program, exit code 1."""
    try:
        return load_settings(**flags)
    except SettingsError as error:
        raise Stopped(str(error)) from None
