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
from functools import partial
from urllib.parse import quote

from langlauf.analysis.payload import run_in_thread
from langlauf.delivery.smtp import SmtpResult, send_mail
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

#: Renders the email of a message, with the link to unsubscribe if there is one.
Render = Callable[[Delivery, JobEnding, str | None], Email]
#: How long the mail of an org is paused when the mail server accepts none: the operator must check the settings.
_PAUSE_SECONDS = 300.0
_RECEIVER = "[receiver]"
#: Characters of a URL that are not percent-encoded.
_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=~"
_POLICY = compat32.clone(linesep="\r\n")


class EmailChannel:
    """Sends messages as mails, from one address through one server."""

    def __init__(
        self,
        store: Store,
        *,
        render: Render,
        receivers: MailReceivers,
        rules: MailRules,
        server: MailServer,
        sender: MailSender,
        seconds: float,
    ) -> None:
        self._store = store
        self._render = render
        self._receivers = receivers
        self._rules = rules
        self._server = server
        self._sender = sender
        self._seconds = seconds

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Send once; a failure is an outcome."""
        try:
            to = read_mail_address(delivery.target)
        except ValueError as error:
            return DeliveryOutcome(verdict="never", error=f"the address {error}")
        if subject_of(delivery.template_key) not in MAIL_SUBJECTS:
            return DeliveryOutcome(verdict="never", error=f"there is no email for {delivery.template_key}")
        refusal = await self._refusal(delivery, to)
        if refusal is not None:
            return DeliveryOutcome(verdict="suppressed", error=MAIL_REFUSALS[refusal])
        link = await self._receivers.link(delivery.org_id, to)
        encode = partial(
            encode_email,
            self._render(delivery, await read_job_ending(self._store, delivery), link),
            sender=self._sender,
            to=to,
            message_id=message_id(delivery.notification_id, self._sender),
            now=self._store.clock.now(),
            unsubscribe=link or unsubscribe_by_mail(self._sender, delivery.org_id),
        )
        mail = await run_in_thread(encode)  # the library takes some milliseconds
        result = await send_mail(self._server, self._sender, to, mail, seconds=self._seconds)
        return self._outcome(result, re.sub(re.escape(to), _RECEIVER, result.reply, flags=re.IGNORECASE))

    async def _refusal(self, delivery: Delivery, to: str) -> MailRefusal | None:
        """Return why the mail must not be sent, or None. A retry does not count against the rate limits again."""
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

    def _outcome(self, result: SmtpResult, reply: str) -> DeliveryOutcome:
        """Return the outcome. `reply` is without the address of the receiver, as it is also logged."""
        if result.verdict == "taken":
            return DeliveryOutcome(verdict="sent", status_code=result.code, reply=reply)
        error = reply if result.code is None else f"the mail server answered {result.code}: {reply}"
        if result.verdict == "never":
            return DeliveryOutcome(verdict="never", status_code=result.code, reply=reply, error=error)
        pause = None
        if result.verdict == "settings":
            log_event(LogEvent.MAIL_MISCONFIGURED, logging.ERROR, server=self._server.shown, reason=error)
            pause = _PAUSE_SECONDS
        return DeliveryOutcome(
            verdict="later",
            status_code=result.code,
            reply=reply,
            error=error,
            retry_after=pause,
            lane_failed=result.server_failed,
        )


async def read_job_ending(store: Store, delivery: Delivery) -> JobEnding:
    """Return the job with the summary of its result; the payload is not read. Uses only the reads of its org."""
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


def encode_email(
    email: Email, *, sender: MailSender, to: str, message_id: str, now: Instant, unsubscribe: str | None = None
) -> bytes:
    """Encode an email with its text and HTML parts, in ASCII, so that every server can forward it.

    `unsubscribe` is the URL to unsubscribe: of a page, or of a mailbox.
    """
    mail = MIMEMultipart("alternative")
    mail["From"] = formataddr((sender.name, sender.address))
    mail["To"] = to
    mail["Subject"] = _subject(email.subject)  # type: ignore[assignment]  # typeshed only knows the newer API
    mail["Date"] = format_datetime(to_datetime(now))
    mail["Message-ID"] = message_id
    # No automatic replies, and no forwarding by mailing lists.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["Content-Language"] = email.language
    mail.attach(_part(email.text, "plain"))
    mail.attach(_part(email.html, "html"))
    return _unsubscribe_headers(unsubscribe) + mail.as_bytes(policy=_POLICY)


def _unsubscribe_headers(address: str | None) -> bytes:
    """Return the headers to unsubscribe.

    Written by hand, each on one line: the library would fold a long URL after an empty first line.
    """
    if address is None:
        return b""
    lines = [f"List-Unsubscribe: <{quote(address, safe=_URL_CHARACTERS)}>"]
    if address.startswith("https:"):  # RFC 8058 allows one-click only for this scheme
        lines.append("List-Unsubscribe-Post: List-Unsubscribe=One-Click")
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def unsubscribe_by_mail(sender: MailSender, org_id: str) -> str:
    """Return a mailto URL to the sender, for servers without a page to unsubscribe."""
    return f"mailto:{quote(sender.address, safe='@')}?subject={quote(f'unsubscribe {org_id}')}"


def _subject(text: str) -> Header:
    """Encode a subject that is not ASCII, or that looks encoded."""
    if not text.isprintable():
        raise ValueError("a subject must be one line of printable characters")
    plain = text.isascii() and "=?" not in text
    return Header(text, "us-ascii" if plain else "utf-8", header_name="Subject")


def _part(text: str, kind: str) -> MIMEText:
    charset = Charset("utf-8")
    charset.body_encoding = QP
    return MIMEText(text, kind, charset)  # type: ignore[arg-type]  # typeshed is too strict here
