"""`langlauf keys`: makes, lists and ends keys in the store, also beside a running server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from langlauf.bootstrap import open_store
from langlauf.cli.client_errors import Exit
from langlauf.cli.client_options import duration_option
from langlauf.cli.options import Stopped
from langlauf.cli.printing import moment, note, plain, print_json, print_table
from langlauf.cli.stores import org_named, place_for, settings_for
from langlauf.domain.access import GRANTABLE, USUAL, Scope
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.keys import LONGEST_NAME, Key, key_id_of
from langlauf.hints import Hints
from langlauf.service.keys import Keys

T = TypeVar("T")
_store = click.option("--store", metavar="URL", help="The store; else as the environment says. [LANGLAUF_STORE]")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("keys")
def keys() -> None:
    """Keys of orgs: with the first one, the server asks everybody for a key."""


def _name(_: click.Context, __: click.Parameter, value: str) -> str:
    if len(value) > LONGEST_NAME or not value.isprintable():
        raise click.BadParameter(f"give at most {LONGEST_NAME} characters that can be printed")
    return value


@keys.command("create")
@click.option("--org", required=True, callback=org_named, metavar="ORG", help="The org it belongs to.")
@click.option("--name", default="", callback=_name, metavar="TEXT", help="What it is for; people see it in lists.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([str(scope) for scope in sorted(GRANTABLE)]),
    help="What it may do; more than one may be given. Without, submit, read and cancel.",
)
@duration_option("--expires", "It ends by itself after this time; else only when it is revoked.")
@_store
@_json
def create(
    org: str, name: str, scopes: tuple[str, ...], expires: float | None, store: str | None, as_json: bool
) -> None:
    """Make a key. It is printed now and never again: the store keeps its hash."""
    if expires is not None and expires <= 0:
        raise click.BadParameter("must be longer than nothing", param_hint="--expires")
    granted = frozenset(Scope(scope) for scope in scopes) or USUAL
    made = _with_keys(store, lambda keys: keys.create(org, name=name, scopes=granted, expires_at=keys.expiry(expires)))
    if as_json:
        print_json({"key": made.text, **_fields(made.key)})
        return
    click.echo(made.text)
    until = _time(made.key.expires_at)
    note(f"A key of {org} for {', '.join(sorted(granted))}" + (f", until {moment(until)}." if until else "."))
    note("Keep it now: it is not shown again. Servers on this store take it within seconds, and ask everybody for one.")


@keys.command("list")
@click.option("--org", callback=org_named, metavar="ORG", help="Only keys of this org.")
@_store
@_json
def list_(org: str | None, store: str | None, as_json: bool) -> None:
    """List keys, oldest first, revoked and expired ones too. What opens anything is never printed."""
    found = _with_keys(store, lambda keys: keys.list(org))
    if as_json:
        print_json([_fields(key) for key in found])
        return
    if not found:
        note("No keys. Make one: langlauf keys create --org ORG")
        return
    rows = [
        (
            key.key_id,
            key.org_id,
            plain(key.name),
            ",".join(sorted(key.scopes)),
            *map(moment, map(_time, (key.created_at, key.expires_at, key.revoked_at, key.last_used_at))),
        )
        for key in found
    ]
    print_table(("KEY", "ORG", "NAME", "SCOPES", "CREATED", "EXPIRES", "REVOKED", "LAST USED"), rows)


@keys.command("revoke")
@click.argument("key_id", metavar="KEY_ID")
@_store
@_json
def revoke(key_id: str, store: str | None, as_json: bool) -> None:
    """End a key, and whatever was signed in or shared with it. Repeating it changes nothing."""
    # Whoever finds a key in the wrong place has all of it: its id is how it begins.
    wanted = key_id_of(key_id) or key_id
    revoked = _with_keys(store, lambda keys: keys.revoke(wanted, org_id=None))
    if revoked is None:
        raise _NoSuchKey("there is no such key; `langlauf keys list` shows the ids")
    if as_json:
        print_json(_fields(revoked))
    else:
        note(f"{revoked.key_id} of {revoked.org_id} is revoked; servers on this store refuse it within seconds.")


class _NoSuchKey(Stopped):
    """The store has no key with that id."""

    exit_code = Exit.NOT_FOUND


def _with_keys(store: str | None, use: Callable[[Keys], Awaitable[T]]) -> T:
    settings = settings_for(store)
    place_for(settings)

    async def run() -> T:
        opened = await open_store(settings, Hints())
        try:
            return await use(Keys(opened.access, opened.clock))
        finally:
            await opened.close()

    try:
        return asyncio.run(run())
    except LanglaufError as error:
        raise Stopped(str(error)) from error


def _fields(key: Key) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "org_id": key.org_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "last_used_at": _time(key.last_used_at),
    }


def _time(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
