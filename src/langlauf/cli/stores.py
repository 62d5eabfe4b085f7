"""The store of the commands that need no server: which one, and one call on it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from langlauf.analysis.schema import InvalidInput
from langlauf.auth.caller import is_valid_name
from langlauf.bootstrap import blobs_of, make_webhook_service, open_store
from langlauf.cli.options import (
    STORE_SETTINGS,
    CommandError,
    ExitCode,
    errors_end_command,
    json_option,
    read_settings,
    store_option,
)
from langlauf.domain.delivery import WebhookEndpoint
from langlauf.domain.errors import LanglaufError
from langlauf.hints import Hints
from langlauf.service.webhooks import EndpointDisabled, EndpointExists, WebhookService
from langlauf.settings import BY_NAME, Settings
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.protocol import Store
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.tools.location import SqliteLocation, StoreLocation, parse_location

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def check_org(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check the name of an org that a flag gives."""
    if value is not None and not is_valid_name(value):
        raise click.BadParameter(f"{value!r}: give 1 to 128 of the characters A-Z a-z 0-9 _ . : -")
    return value


def org_store_options(function: F) -> F:
    """Add --org, --store and --json to a command that works on the data of one org."""
    org = click.option("--org", callback=check_org, metavar="ORG", help="The org. [LANGLAUF_ORG] Default: default-org.")
    return org(store_option(json_option(function)))


def settings_for(store: str | None) -> Settings:
    """Return the settings; a store named by a flag takes precedence over one named by the environment."""
    environment = dict(os.environ)
    if store is not None:
        for name in STORE_SETTINGS:
            environment.pop(BY_NAME[name].environment, None)
    return read_settings(environment, store=store)


def place_for(settings: Settings) -> StoreLocation:
    """Return where the store is; a store in memory ends the command, as it has no data between two programs."""
    with errors_end_command():
        place = parse_location(settings.store_path)
    if place == SqliteLocation(MEMORY):
        raise CommandError("a store in memory ends with its program: name a file with --store or LANGLAUF_STORE")
    return place


@contextmanager
def payloads_for(settings: Settings) -> Iterator[BlockingPayloads | None]:
    """Yield a reader of the store's blobs, or None where the settings name no place for blobs."""
    with errors_end_command():
        blobs = blobs_of(settings)
    if blobs is None:
        yield None
        return
    with BlockingPayloads(blobs, seconds=settings.blob_seconds) as payloads:
        yield payloads


def run_on_store(settings: Settings, use: Callable[[Store], Awaitable[T]]) -> T:
    """Open the store, await `use` with it, and close it; an error ends the command."""
    place_for(settings)

    async def run() -> T:
        store = await open_store(settings, Hints())
        try:
            return await use(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except InvalidInput as error:
        raise CommandError(error.message, code=ExitCode.USAGE) from None
    except (EndpointExists, EndpointDisabled) as error:
        raise CommandError(str(error), code=ExitCode.CONFLICT) from None
    except LanglaufError as error:
        raise CommandError(str(error)) from error


def run_for_org(use: Callable[[Store, Settings, str], Awaitable[T]], flags: dict[str, Any]) -> T:
    """Do the same for the store and the org of the flags that `org_store_options` added."""
    settings = settings_for(flags["store"])
    return run_on_store(settings, lambda store: use(store, settings, flags["org"] or settings.org))


def run_on_endpoints(use: Callable[[WebhookService, str], Awaitable[T]], flags: dict[str, Any]) -> T:
    """Do the same for the webhook endpoints of that org."""
    return run_for_org(
        lambda store, settings, org: use(make_webhook_service(store, settings, operator=True), org), flags
    )


async def find_endpoint(endpoints: WebhookService, org: str, id_or_url: str) -> WebhookEndpoint:
    """Return the endpoint with that id or URL; the command ends where there is none."""
    listed = await endpoints.endpoints(org)
    return require_found(next((one for one in listed if id_or_url in (one.endpoint_id, one.url)), None))


def require_found(value: T | None) -> T:
    """Return the value; None ends the command with exit code 4."""
    if value is None:
        raise CommandError(
            "there is no such endpoint or delivery of this org; `langlauf webhooks list` shows the ids",
            code=ExitCode.NOT_FOUND,
        )
    return value


def repeated_flags(flags: dict[str, Any]) -> str:
    """Return --org and --store as they were given, for a command to type next."""
    return "".join(f" --{name} {flags[name]}" for name in ("org", "store") if flags[name])
