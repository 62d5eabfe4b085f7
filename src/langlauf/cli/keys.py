"""`langlauf keys`: create, list and revoke API keys in the store, also beside a running server."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from langlauf.auth.keyring import KeyService
from langlauf.cli.options import CommandError, ExitCode, duration_option, json_option, store_option
from langlauf.cli.output import format_time, plain, print_json, print_note, print_table
from langlauf.cli.stores import check_org, run_on_store, settings_for
from langlauf.domain.access import DEFAULT_SCOPES, GRANTABLE_SCOPES, LONGEST_KEY_NAME, ApiKey, Scope, key_id_of
from langlauf.domain.instant import Instant, to_datetime

T = TypeVar("T")


@click.group("keys")
def keys() -> None:
    """API keys of orgs. From the first one on, the server requires a key for every request."""


def _check_name(_: click.Context, __: click.Parameter, value: str) -> str:
    if len(value) > LONGEST_KEY_NAME or not value.isprintable():
        raise click.BadParameter(f"give at most {LONGEST_KEY_NAME} printable characters")
    return value


@keys.command("create")
@click.option("--org", required=True, callback=check_org, metavar="ORG", help="The org of the key.")
@click.option("--name", default="", callback=_check_name, metavar="TEXT", help="A name, shown in lists.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([str(scope) for scope in sorted(GRANTABLE_SCOPES)]),
    help="What the key allows; may be repeated. Default: submit, read and cancel.",
)
@duration_option("--expires", "Expires after this time. Default: never.")
@store_option
@json_option
def create(
    org: str, name: str, scopes: tuple[str, ...], expires: float | None, store: str | None, as_json: bool
) -> None:
    """Create a key. It is printed only now: the store keeps its hash."""
    if expires is not None and expires <= 0:
        raise click.BadParameter("must be more than 0", param_hint="--expires")
    granted = frozenset(Scope(scope) for scope in scopes) or DEFAULT_SCOPES
    made = _run_on_keys(
        store, lambda keys: keys.create(org, name=name, scopes=granted, expires_at=keys.expiry(expires))
    )
    operator = settings_for(store).auth_token is not None
    if as_json:
        print_json({"key": made.text, **_fields(made.key)})
        return
    click.echo(made.text)
    until = format_time(made.key.expires_at)
    print_note(f"A key of {org} for {', '.join(sorted(granted))}" + (f", until {until}." if until else "."))
    print_note("Save it now: it is not shown again. Servers accept it within seconds, and require a key from then on.")
    for text in _limits(granted, operator=operator):
        print_note(f"  {text}")


def _limits(granted: frozenset[Scope], *, operator: bool) -> list[str]:
    """Return what the key does not allow: before the first key every caller was allowed it."""
    lacked = {
        "pause, hold results or manage keys: --scope admin": Scope.ADMIN,
        "see stack traces: --scope debug": Scope.DEBUG,
    }
    lines = [f"It cannot {what}" for what, scope in lacked.items() if scope not in granted]
    return lines if operator else [*lines, "No key is for all orgs or /metrics: set API_AUTH_TOKEN for the server"]


@keys.command("list")
@click.option("--org", callback=check_org, metavar="ORG", help="Only keys of this org.")
@store_option
@json_option
def list_(org: str | None, store: str | None, as_json: bool) -> None:
    """List keys, oldest first, with revoked and expired ones. Secrets are never printed."""
    found = _run_on_keys(store, lambda keys: keys.list(org))
    if as_json:
        print_json([_fields(key) for key in found])
        return
    if not found:
        print_note("No keys. Create one: langlauf keys create --org ORG")
        return
    rows = [
        (
            key.key_id,
            key.org_id,
            plain(key.name),
            ",".join(sorted(key.scopes)),
            *map(format_time, (key.created_at, key.expires_at, key.revoked_at, key.last_used_at)),
        )
        for key in found
    ]
    print_table(("KEY", "ORG", "NAME", "SCOPES", "CREATED", "EXPIRES", "REVOKED", "LAST USED"), rows)


@keys.command("revoke")
@click.argument("key_id", metavar="KEY_ID")
@store_option
@json_option
def revoke(key_id: str, store: str | None, as_json: bool) -> None:
    """Revoke a key, and the sessions and links made with it. Repeating it changes nothing."""
    # A leaked key is known as a whole: it begins with its id.
    wanted = key_id_of(key_id) or key_id
    revoked = _run_on_keys(store, lambda keys: keys.revoke(wanted, org_id=None))
    if revoked is None:
        raise CommandError("there is no such key; `langlauf keys list` shows the ids", code=ExitCode.NOT_FOUND)
    if as_json:
        print_json(_fields(revoked))
    else:
        print_note(f"{revoked.key_id} of {revoked.org_id} is revoked; servers on this store reject it within seconds.")


def _run_on_keys(store: str | None, use: Callable[[KeyService], Awaitable[T]]) -> T:
    return run_on_store(settings_for(store), lambda opened: use(KeyService(opened.access, opened.clock)))


def _fields(key: ApiKey) -> dict[str, Any]:
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
