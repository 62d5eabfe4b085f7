"""Which store a command works on, for the commands that need no server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from langlauf.auth.caller import usable_name
from langlauf.bootstrap import blobs_of
from langlauf.cli.options import STORE_SETTINGS, Stopped
from langlauf.domain.errors import SettingsError
from langlauf.settings import BY_NAME, Settings, load_settings
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.tools.location import Place, SqlitePlace, place_of


def org_named(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """What a flag names as an org."""
    if value is not None and not usable_name(value):
        raise click.BadParameter(f"{value!r}: give 1 to 128 of the characters A-Z a-z 0-9 _ . : -")
    return value


def settings_for(store: str | None) -> Settings:
    """The settings, where a store named by a flag goes before one named by the environment."""
    environment = dict(os.environ)
    if store is not None:
        for name in STORE_SETTINGS:
            environment.pop(BY_NAME[name].environment, None)
    try:
        return load_settings(environment, store=store)
    except SettingsError as error:
        raise Stopped(str(error)) from None


@contextmanager
def payloads_for(settings: Settings) -> Iterator[BlockingPayloads | None]:
    """What reads the blobs of a store, where the settings say where they are."""
    try:
        blobs = blobs_of(settings)
    except SettingsError as error:
        raise Stopped(str(error)) from None
    if blobs is None:
        yield None
        return
    with BlockingPayloads(blobs, seconds=settings.blob_seconds) as payloads:
        yield payloads


def place_for(settings: Settings) -> Place:
    """Where the store is; one in memory has nothing to work on."""
    try:
        place = place_of(settings.store_path)
    except SettingsError as error:
        raise Stopped(str(error)) from None
    if place == SqlitePlace(MEMORY):
        raise Stopped("a store in memory is gone with its program: name a file")
    return place
