"""`langlauf mail-test` and `langlauf mail`: a test mail, and the addresses that an org may send mail to."""

import asyncio
from typing import Any

import click

from langlauf.cli.options import CommandError, ExitCode, json_option, read_settings, settings_options
from langlauf.cli.output import format_time, plain, print_json, print_note, print_table
from langlauf.cli.stores import org_store_options, run_for_org
from langlauf.clock import SystemClock, monotonic, new_id
from langlauf.delivery.mail import SmtpResult, Verdict, encode_email, send_mail
from langlauf.domain.instant import to_datetime
from langlauf.domain.mail import AddressMark, MailMark, MailSender, MailServer, message_id, read_mail_address
from langlauf.service.notifications import MailReceivers
from langlauf.settings import Settings
from langlauf.ui.emails import sample_email

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
def list_(**flags: Any) -> None:
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
