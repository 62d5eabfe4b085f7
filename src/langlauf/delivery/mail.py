"""E-mail: a message of the outbox is rendered, addressed, and handed to the mail server.

Headers are made by the older half of the standard library: the newer one parses what it is given, so that a subject
that looks encoded would be decoded, and it loses spaces between words that it encodes.
"""

import logging
import re
from collections.abc import Callable
from email.charset import QP, Charset
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import format_datetime, formataddr
from urllib.parse import quote

from langlauf.delivery.smtp import Answer, send
from langlauf.domain.delivery import MAIL_SUBJECTS, Delivery, subject_of
from langlauf.domain.delivery_outcome import DeliveryOutcome
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.job import JobRecord
from langlauf.domain.mail import (
    MAIL_REFUSALS,
    Email,
    JobEnding,
    MailAdmission,
    MailRefusal,
    MailRules,
    MailSender,
    MailServer,
    domain_allowed,
    message_id,
    normalized_address,
    read_mail_address,
)
from langlauf.service.mail_receivers import MailReceivers
from langlauf.store.protocol import JobReads, Store
from langlauf.telemetry.log import LogEvent, log_event

#: Writes the letter of a message, from what is known of its job, with the link that unsubscribes where there is one.
Write = Callable[[Delivery, JobEnding, str | None], Email]
#: How long the mail of an org is left alone where no mail at all gets through: somebody has to look at the settings.
_PAUSE_SECONDS = 300.0
_RECEIVER = "[receiver]"


class Mails:
    """Sends mail from one address through one server."""

    def __init__(
        self,
        store: Store,
        *,
        write: Write,
        receivers: MailReceivers,
        rules: MailRules,
        server: MailServer,
        sender: MailSender,
        seconds: float,
    ) -> None:
        self._store = store
        self._write = write
        self._receivers = receivers
        self._rules = rules
        self._server = server
        self._sender = sender
        self._seconds = seconds

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Sends it once; whatever goes wrong is an outcome."""
        try:
            to = read_mail_address(delivery.target)
        except ValueError as error:
            return DeliveryOutcome(verdict="never", error=f"the address {error}")
        if subject_of(delivery.template_key) not in MAIL_SUBJECTS:
            return DeliveryOutcome(verdict="never", error=f"there is no letter for {delivery.template_key}")
        refusal = await self._refusal(delivery, to)
        if refusal is not None:
            return DeliveryOutcome(verdict="suppressed", error=MAIL_REFUSALS[refusal])
        link = await self._receivers.link(delivery.org_id, to)
        mail = mail_bytes(
            self._write(delivery, await ending_of(self._store, delivery), link),
            sender=self._sender,
            to=to,
            message_id=message_id(delivery.notification_id, self._sender),
            now=self._store.clock.now(),
            unsubscribe=link or unsubscribe_by_mail(self._sender, delivery.org_id),
        )
        answer = await send(self._server, self._sender, to, mail, seconds=self._seconds)
        return self._outcome(answer, re.sub(re.escape(to), _RECEIVER, answer.said, flags=re.IGNORECASE))

    async def _refusal(self, delivery: Delivery, to: str) -> MailRefusal | None:
        """Why this mail must not go out. A further try of one that was let out before is not counted again."""
        if not domain_allowed(to, self._rules.domains):
            return "domain"
        return await self._store.mail.admit(
            MailAdmission(
                org_id=delivery.org_id,
                notification_id=delivery.notification_id,
                attempt=delivery.attempt,
                address=normalized_address(to),
                counted=delivery.try_number == 1,
                only_listed=self._rules.only_listed,
                org_rate=self._rules.org_rate,
                address_rate=self._rules.address_rate,
            )
        )

    def _outcome(self, answer: Answer, said: str) -> DeliveryOutcome:
        """What the server's answer means. Whom it is about does not stand in it: it is also logged."""
        if answer.verdict == "taken":
            return DeliveryOutcome(verdict="sent", status_code=answer.code, reply=said)
        error = said if answer.code is None else f"the mail server answered {answer.code}: {said}"
        if answer.verdict == "never":
            return DeliveryOutcome(verdict="never", status_code=answer.code, reply=said, error=error)
        patience = None
        if answer.verdict == "settings":
            log_event(LogEvent.MAIL_MISCONFIGURED, logging.ERROR, server=self._server.shown, reason=error)
            patience = _PAUSE_SECONDS
        return DeliveryOutcome(
            verdict="later",
            status_code=answer.code,
            reply=said,
            error=error,
            retry_after=patience,
            lane_failed=answer.everybody,
        )


async def ending_of(store: Store, delivery: Delivery) -> JobEnding:
    """The job with what its result says at a glance; the result itself is not read."""
    reads = store.tenant(delivery.org_id)
    view = await reads.job(delivery.job_id)
    if view is None:
        return JobEnding()
    return JobEnding(job=view.job, summary_json=await _summary(reads, view.job))


async def _summary(reads: JobReads, job: JobRecord) -> str | None:
    if job.result_id is None or job.result_expired_at is not None:
        return None
    found = await reads.result(job.result_id, latest=False, payload=False)
    return None if found is None else found.delivered.snapshot.summary_json


#: What an address is made of; anything else is written as %XX.
_OF_ADDRESSES = "%/:?#[]@!$&'()*+,;=~"
_POLICY = compat32.clone(linesep="\r\n")


def mail_bytes(
    letter: Email, *, sender: MailSender, to: str, message_id: str, now: Instant, unsubscribe: str | None = None
) -> bytes:
    """The mail with both forms of its text; all of it is ASCII, so that any server can pass it on.

    `unsubscribe` is the address that ends mails like this one: a page, or a mailbox.
    """
    mail = MIMEMultipart("alternative")
    mail["From"] = formataddr((sender.name, sender.address))
    mail["To"] = to
    mail["Subject"] = _subject(letter.subject)  # type: ignore[assignment]  # the stub knows the newer half alone
    mail["Date"] = format_datetime(to_datetime(now))
    mail["Message-ID"] = message_id
    # Nobody's absence is to be answered to, and no list is to pass it on as a person's word.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["Content-Language"] = letter.language
    mail.attach(_part(letter.text, "plain"))
    mail.attach(_part(letter.html, "html"))
    return _unsubscribing(unsubscribe) + mail.as_bytes(policy=_POLICY)


def _unsubscribing(address: str | None) -> bytes:
    """The headers that end mails like this one.

    They are written by hand, on one line each: the library would fold so long an address behind an empty first line.
    """
    if address is None:
        return b""
    lines = [f"List-Unsubscribe: <{quote(address, safe=_OF_ADDRESSES)}>"]
    if address.startswith("https:"):  # one click: RFC 8058 knows no other scheme
        lines.append("List-Unsubscribe-Post: List-Unsubscribe=One-Click")
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def unsubscribe_by_mail(sender: MailSender, org_id: str) -> str:
    """Where there is no page for it, a mail to the sender, which a person has to read."""
    return f"mailto:{quote(sender.address, safe='@')}?subject={quote(f'unsubscribe {org_id}')}"


def _subject(text: str) -> Header:
    """Encoded where it is not plain, and where it would look as if it were encoded."""
    if not text.isprintable():
        raise ValueError("a subject is one line that can be printed")
    plain = text.isascii() and "=?" not in text
    return Header(text, "us-ascii" if plain else "utf-8", header_name="Subject")


def _part(text: str, kind: str) -> MIMEText:
    charset = Charset("utf-8")
    charset.body_encoding = QP
    return MIMEText(text, kind, charset)  # type: ignore[arg-type]  # it takes more than its stub says
