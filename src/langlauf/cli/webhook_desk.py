"""What the commands about endpoints and deliveries share: the store, the org, and how they end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click

from langlauf.analysis.schema import InvalidInput
from langlauf.auth.caller import usable_name
from langlauf.bootstrap import make_endpoints, open_store
from langlauf.cli.client_errors import Exit
from langlauf.cli.options import Stopped
from langlauf.cli.printing import moment
from langlauf.cli.stores import place_for, settings_for
from langlauf.domain.delivery import Endpoint
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant, to_datetime
from langlauf.hints import Hints
from langlauf.service.webhooks import EndpointDisabled, EndpointExists, Endpoints
from langlauf.settings import Settings
from langlauf.store.protocol import Store

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _org(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not usable_name(value):
        raise click.BadParameter(f"{value!r}: give 1 to 128 of the characters A-Z a-z 0-9 _ . : -")
    return value


def common(function: F) -> F:
    """The flags that all of them have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
        click.option("--store", metavar="URL", help="The store; else as the environment says. [LANGLAUF_STORE]"),
        click.option(
            "--org", callback=_org, metavar="ORG", help="Whose they are. [LANGLAUF_ORG] Default: default-org."
        ),
    ):
        function = option(function)
    return function


class _NoSuch(Stopped):
    """The store has no such endpoint or delivery of that org."""

    exit_code = Exit.NOT_FOUND


class _Refused(Stopped):
    """It is in the way of what is there."""

    exit_code = Exit.CONFLICT


class _Unusable(Stopped):
    """What was given cannot be used."""

    exit_code = Exit.USAGE


def at_desk(use: Callable[[Endpoints, str], Awaitable[T]], flags: dict[str, Any]) -> T:
    """Opens the store, and does it with the endpoints of the org of the flags."""
    return at_store(lambda store, settings, org: use(make_endpoints(store, settings, operator=True), org), flags)


def at_store(use: Callable[[Store, Settings, str], Awaitable[T]], flags: dict[str, Any]) -> T:
    """Opens the store, and does it for the org of the flags."""
    settings = settings_for(flags["store"])
    place_for(settings)

    async def run() -> T:
        store = await open_store(settings, Hints())
        try:
            return await use(store, settings, flags["org"] or settings.org)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except InvalidInput as error:
        raise _Unusable(error.message) from None
    except (EndpointExists, EndpointDisabled) as error:
        raise _Refused(str(error)) from None
    except LanglaufError as error:
        raise Stopped(str(error)) from error


def with_time(
    use: Callable[[Endpoints, str], Awaitable[T]],
) -> Callable[[Endpoints, str], Coroutine[Any, Any, tuple[T, Instant]]]:
    """The same, with the time of the store beside."""

    async def run(desk: Endpoints, org: str) -> tuple[T, Instant]:
        return await use(desk, org), desk.clock.now()

    return run


async def found(desk: Endpoints, org: str, word: str) -> Endpoint:
    """The endpoint with that id or address."""
    found = [one for one in await desk.endpoints(org) if word in (one.endpoint_id, one.url)]
    return there(found[0] if found else None)


def there(found: T | None) -> T:
    """What was found; the command ends where nothing was."""
    if found is None:
        raise _NoSuch("there is no such endpoint or delivery of this org; `langlauf webhooks list` shows the ids")
    return found


def shown(instant: Instant | None) -> str:
    """A moment to the second."""
    return moment(None if instant is None else to_datetime(instant))


def again(flags: dict[str, Any]) -> str:
    """The flags of a command to type next."""
    return "".join(f" --{name} {flags[name]}" for name in ("org", "store") if flags[name])
