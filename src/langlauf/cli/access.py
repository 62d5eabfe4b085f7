"""`langlauf keys`, `mail` and `mail-test`: who may call the API, and who may receive mail."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from langlauf.auth.keyring import KeyService
from langlauf.cli.options import (
    CommandError,
    ExitCode,
    duration_option,
    format_time,
    json_option,
    plain,
    print_json,
    print_note,
    print_table,
    read_settings,
    settings_options,
    store_option,
)
from langlauf.cli.stores import check_org, org_store_options, run_for_org, run_on_store, settings_for
from langlauf.clock import SystemClock, monotonic, new_id
from langlauf.delivery.mail import SmtpResult, Verdict, encode_email, send_mail
from langlauf.domain.access import DEFAULT_SCOPES, GRANTABLE_SCOPES, LONGEST_KEY_NAME, ApiKey, Scope, key_id_of
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.mail import AddressMark, MailMark, MailSender, MailServer, message_id, read_mail_address
from langlauf.service.notifications import MailReceivers
from langlauf.settings import Settings
from langlauf.ui.emails import sample_email

# -- keys --------------------------------------------------------------------------------------------------------------

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


# -- mail --------------------------------------------------------------------------------------------------------------

#: What to do if the mail server did not accept the mail.
_ADVICE: dict[Verdict, str] = {
    "later": "This may be temporary: mails about jobs are retried.",
    "never": "The mail server rejects this address or this mail; others may be accepted.",
    "settings": "No mail can be sent with these settings: check LANGLAUF_SMTP and LANGLAUF_MAIL_FROM.",
}


@click.command("mail-test")
@click.argument("address", metavar="ADDRESS")
@settings_options("smtp", "mail_from", "mail_language", "webhook_seconds")
@json_option
def mail_test(address: str, *, as_json: bool, **flags: Any) -> None:
    """Send a test mail, and print the mail server's answer.

    Exit code 0 if it accepted the mail, 1 if it did not, 5 if it could not be reached.
    """
    settings = read_settings(**flags)
    if settings.smtp is None or settings.mail_from is None:
        raise CommandError("no mail server is configured: set LANGLAUF_SMTP and LANGLAUF_MAIL_FROM")
    try:
        to = read_mail_address(address)
    except ValueError as error:
        raise click.UsageError(f"ADDRESS {error}") from None
    started = monotonic()
    answer = asyncio.run(_send_test(settings, settings.smtp, settings.mail_from, to))
    if as_json:
        shown = {"verdict": answer.verdict, "code": answer.code, "said": answer.reply}
        print_json({**shown, "server": settings.smtp.shown, "seconds": round(monotonic() - started, 3)})
    else:
        _print_answer(answer, settings.smtp, to)
    raise SystemExit(_exit_code(answer))


async def _send_test(settings: Settings, server: MailServer, sender: MailSender, to: str) -> SmtpResult:
    mail = encode_email(
        sample_email(settings.mail_language),
        sender=sender,
        to=to,
        message_id=message_id(new_id(), sender),
        now=SystemClock().now(),
    )
    return await send_mail(server, sender, to, mail, seconds=settings.webhook_seconds)


def _print_answer(answer: SmtpResult, server: MailServer, to: str) -> None:
    said = plain(answer.reply) if answer.code is None else f"{answer.code} {plain(answer.reply)}"
    if answer.verdict == "taken":
        click.echo(f"{server.shown} accepted the mail for {to}: {said}")
        print_note("Accepted is not yet delivered: check the inbox and the spam folder.")
    else:
        print_note(f"langlauf: the mail was not accepted: {said}")
        print_note(_ADVICE[answer.verdict])


def _exit_code(answer: SmtpResult) -> ExitCode:
    if answer.verdict == "taken":
        return ExitCode.OK
    return ExitCode.UNREACHABLE if answer.verdict == "later" and answer.code is None else ExitCode.FAILED


_address = click.argument("address", metavar="ADDRESS")


@click.group("mail")
def mail() -> None:
    """Addresses for an org's mail: listed or unsubscribed."""


@mail.command("allow")
@_address
@org_store_options
def allow(address: str, **flags: Any) -> None:
    """Add an address to the org's list. With LANGLAUF_MAIL_ONLY_LISTED, mail goes to listed addresses only."""
    changed = _change(address, "allowed", flags, wanted=True)
    _print_change(address, flags, "is on the list." if changed else "was on the list already.", changed=changed)


@mail.command("remove")
@_address
@org_store_options
def remove(address: str, **flags: Any) -> None:
    """Remove an address from the org's list."""
    changed = _change(address, "allowed", flags, wanted=False)
    _print_change(address, flags, "is no longer on the list." if changed else "was not on the list.", changed=changed)


@mail.command("unsubscribe")
@_address
@org_store_options
def unsubscribe(address: str, **flags: Any) -> None:
    """Stop the org's mail to an address. At its owner's request; `subscribe` undoes it."""
    changed = _change(address, "unsubscribed", flags, wanted=True)
    _print_change(address, flags, "gets no more mail." if changed else "had unsubscribed already.", changed=changed)


@mail.command("subscribe")
@_address
@org_store_options
def subscribe(address: str, **flags: Any) -> None:
    """Undo `unsubscribe`. Only at the request of the address's owner."""
    changed = _change(address, "unsubscribed", flags, wanted=False)
    _print_change(address, flags, "gets mail again." if changed else "had not unsubscribed.", changed=changed)


@mail.command("list")
@org_store_options
def list_receivers(**flags: Any) -> None:
    """List allowed and unsubscribed addresses."""
    listed: list[MailMark] = run_for_org(lambda store, settings, org: MailReceivers(store, settings).marks(org), flags)
    if flags["as_json"]:
        print_json([{"address": one.address, "mark": one.mark, "at": to_datetime(one.at)} for one in listed])
        return
    if not listed:
        print_note("No address is on the list, and none has unsubscribed.")
        return
    print_table(("ADDRESS", "MARK", "SINCE"), [(one.address, one.mark, format_time(one.at)) for one in listed])


def _change(address: str, mark: AddressMark, flags: dict[str, Any], *, wanted: bool) -> bool:
    async def use(receivers: MailReceivers, org: str) -> bool:
        return await (receivers.mark if wanted else receivers.unmark)(org, address, mark)

    return run_for_org(lambda store, settings, org: use(MailReceivers(store, settings), org), flags)


def _print_change(address: str, flags: dict[str, Any], text: str, *, changed: bool) -> None:
    if flags["as_json"]:
        print_json({"address": address.lower(), "changed": changed})
    else:
        print_note(f"{address.lower()} {text}")
