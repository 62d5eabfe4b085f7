"""`langlauf mail-test`: whether mail gets through, and in the server's own words where it does not."""

import asyncio
from typing import Any

import click

from langlauf.cli.client_errors import Exit
from langlauf.cli.options import Stopped, read_settings, settings_options
from langlauf.cli.printing import note, plain, print_json
from langlauf.clock import SystemClock, monotonic, new_id
from langlauf.delivery.mail.message import mail_bytes
from langlauf.delivery.mail.smtp import Answer, Verdict, send
from langlauf.domain.mail import MailServer, Sender, message_id
from langlauf.domain.mail_address import read_mail_address
from langlauf.settings import Settings
from langlauf.ui.letters.writing import trial_letter

#: What to look at where the mail was not taken.
_ADVICE: dict[Verdict, str] = {
    "later": "This may pass by itself: mails about jobs are tried again by the schedule of deliveries.",
    "never": "The server refuses this receiver or this mail; others may get through.",
    "settings": "No mail gets through like this: check LANGLAUF_SMTP and LANGLAUF_MAIL_FROM.",
}


@click.command("mail-test")
@click.argument("address", metavar="ADDRESS")
@settings_options("smtp", "mail_from", "mail_language", "webhook_seconds")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def mail_test(address: str, *, as_json: bool, **flags: Any) -> None:
    """Send a test mail through the settings of the server, and say what the mail server answered.

    Exit code 0 where it took the mail, 1 where it did not, 5 where it could not be reached.
    """
    settings = read_settings(**flags)
    if settings.smtp is None or settings.mail_from is None:
        raise Stopped("no mail server is set up: set LANGLAUF_SMTP and LANGLAUF_MAIL_FROM")
    try:
        to = read_mail_address(address)
    except ValueError as error:
        raise click.UsageError(f"ADDRESS {error}") from None
    started = monotonic()
    answer = asyncio.run(_sent(settings, settings.smtp, settings.mail_from, to))
    if as_json:
        shown = {"verdict": answer.verdict, "code": answer.code, "said": answer.said}
        print_json({**shown, "server": settings.smtp.shown, "seconds": round(monotonic() - started, 3)})
    else:
        _tell(answer, settings.smtp, to)
    raise SystemExit(_exit(answer))


async def _sent(settings: Settings, server: MailServer, sender: Sender, to: str) -> Answer:
    mail = mail_bytes(
        trial_letter(settings.mail_language),
        sender=sender,
        to=to,
        message_id=message_id(new_id(), sender),
        now=SystemClock().now(),
    )
    return await send(server, sender, to, mail, seconds=settings.webhook_seconds)


def _tell(answer: Answer, server: MailServer, to: str) -> None:
    said = plain(answer.said) if answer.code is None else f"{answer.code} {plain(answer.said)}"
    if answer.verdict == "taken":
        click.echo(f"{server.shown} took the mail for {to}: {said}")
        note("Taken is not yet delivered: look into the inbox, and into the folder for spam.")
    else:
        note(f"langlauf: the mail was not taken: {said}")
        note(_ADVICE[answer.verdict])


def _exit(answer: Answer) -> Exit:
    if answer.verdict == "taken":
        return Exit.FINE
    return Exit.UNREACHABLE if answer.verdict == "later" and answer.code is None else Exit.FAILED
