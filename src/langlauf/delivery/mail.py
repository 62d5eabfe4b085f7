"""E-mail: a message of the outbox is rendered, addressed, and sent by SMTP, in a thread and within one deadline."""

import asyncio
import contextlib
import logging
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable
from email.charset import QP, Charset
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import format_datetime, formataddr
from functools import partial
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from langlauf.analysis.payload import run_in_thread
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
from langlauf.domain.redact import clean_text
from langlauf.service.notifications import MailReceivers
from langlauf.store.protocol import JobReads, Store
from langlauf.telemetry.log import LogEvent, log_event

# -- SMTP --------------------------------------------------------------------------------------------------------------
# The result is a value: accepted, to be retried, rejected for good, or rejected because of the settings. A mail whose
# last reply got lost counts as not accepted, and is sent again with the same Message-ID.

T = TypeVar("T")
#: Replies of a server are cut to this length.
_LONGEST_REPLY = 500
_QUIT_SECONDS = 2.0
_TAKEN = 250
_FORWARDED = 251
_CLOSING = 421
_PERMANENT = range(500, 600)

#: `taken`; `later` is to be retried; `never` rejects this receiver or mail; `settings` rejects every mail until the
#: operator has corrected them, and is retried as well.
Verdict = Literal["taken", "later", "never", "settings"]


class SmtpResult(msgspec.Struct, frozen=True):
    """What became of a mail, and the reply of the server."""

    verdict: Verdict
    #: code of the last reply, if there was one
    code: int | None
    reply: str
    #: whether any other mail would have failed as well
    server_failed: bool = False


class _DeadlineExceeded(Exception):
    """The deadline is over: no further command is sent."""


async def send_mail(server: MailServer, sender: MailSender, to: str, mail: bytes, *, seconds: float) -> SmtpResult:
    """Send one mail. Once this returns, the mail is sent or will not be."""
    session = _SmtpSession(server, sender, to, mail, seconds)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[SmtpResult] = loop.create_future()

    def report(result: SmtpResult) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(result))

    # A daemon thread, as a DNS lookup in it can outlast the program.
    thread = threading.Thread(target=session.run, args=(report,), name="langlauf-mail", daemon=True)
    try:
        async with asyncio.timeout(seconds):
            await run_in_thread(thread.start)  # it returns once the thread runs: on a busy machine not at once
            return await done
    except TimeoutError:
        reply = f"{server.shown} did not accept the mail within {seconds:g} s"
        return SmtpResult("later", None, reply, server_failed=True)
    finally:
        if not done.done() or done.cancelled():
            session.abort()


class _SmtpSession:
    """One SMTP connection, from greeting to QUIT."""

    def __init__(self, server: MailServer, sender: MailSender, to: str, mail: bytes, seconds: float) -> None:
        self._server = server
        self.sender = sender
        self._to = to
        self._mail = mail
        self.seconds = seconds
        #: set before it connects, so that it can be aborted at any time
        self.client: smtplib.SMTP | None = None
        self._over = threading.Event()

    def run(self, report: Callable[[SmtpResult], None]) -> None:
        """Send the mail and report the result; QUIT comes after that, and does not change it."""
        try:
            report(self._send())
        except _DeadlineExceeded:
            pass
        except (OSError, smtplib.SMTPException, ValueError) as error:
            report(_result_of(error, self._server))
        self._quit()

    def abort(self) -> None:
        """Close the connection, from another thread: no further command is sent."""
        self._over.set()
        connection = self.client.sock if self.client is not None else None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _send(self) -> SmtpResult:
        client = self._connect()
        code, reply = self._command(lambda: client.mail(self.sender.address))
        if code != _TAKEN:
            return SmtpResult("settings" if code in _PERMANENT else "later", code, _text(reply), server_failed=True)
        code, reply = self._command(lambda: client.rcpt(self._to))
        if code not in {_TAKEN, _FORWARDED}:
            return _refused(code, reply)
        code, reply = self._command(lambda: client.data(self._mail))
        return SmtpResult("taken", code, _text(reply)) if code == _TAKEN else _refused(code, reply)

    def _connect(self) -> smtplib.SMTP:
        """Connect, with TLS and a login where the settings ask for them."""
        server = self._server
        client: smtplib.SMTP = (_TlsConnection if server.tls == "implicit" else _PlainConnection)(self, server)
        if server.tls == "starttls":
            self._command(lambda: client.starttls(context=ssl.create_default_context()))
        if server.user is not None and server.password is not None:
            user, password = server.user, server.password
            self._command(lambda: client.login(user, password))
        self._command(client.ehlo_or_helo_if_needed)
        return client

    def _command(self, step: Callable[[], T]) -> T:
        """Send a command, unless the deadline is over."""
        if self._over.is_set():
            raise _DeadlineExceeded
        return step()

    def _quit(self) -> None:
        client = self.client
        if client is None:
            return
        with contextlib.suppress(OSError, smtplib.SMTPException):
            if client.sock is not None and not self._over.is_set():
                client.sock.settimeout(_QUIT_SECONDS)
                client.quit()
        client.close()


class _PlainConnection(smtplib.SMTP):
    """A connection without TLS, at least before STARTTLS."""

    def __init__(self, session: _SmtpSession, server: MailServer) -> None:
        session.client = self
        super().__init__(server.host, server.port, session.sender.domain, timeout=session.seconds)


class _TlsConnection(smtplib.SMTP_SSL):
    """A connection with TLS from the first byte."""

    def __init__(self, session: _SmtpSession, server: MailServer) -> None:
        session.client = self
        context = ssl.create_default_context()
        super().__init__(server.host, server.port, session.sender.domain, timeout=session.seconds, context=context)


def _result_of(error: Exception, server: MailServer) -> SmtpResult:
    """Return the result of a session that failed."""
    match error:
        case smtplib.SMTPAuthenticationError():
            verdict: Verdict = "settings" if error.smtp_code in _PERMANENT else "later"
            return SmtpResult(verdict, error.smtp_code, f"login refused: {_text(error.smtp_error)}", server_failed=True)
        case smtplib.SMTPDataError():
            return _refused(error.smtp_code, error.smtp_error)
        case smtplib.SMTPResponseException():
            return SmtpResult("later", error.smtp_code, _text(error.smtp_error), server_failed=True)
    reply = f"{server.shown}: {_text(str(error) or type(error).__name__)}"
    # A missing extension, an untrusted certificate and an invalid host name do not resolve themselves.
    permanent = isinstance(error, smtplib.SMTPNotSupportedError | ssl.SSLCertVerificationError | UnicodeError)
    return SmtpResult("settings" if permanent else "later", None, reply, server_failed=True)


def _refused(code: int, reply: bytes | str) -> SmtpResult:
    """Return the result of a rejected receiver or mail; 421 means that the server is closing."""
    return SmtpResult("never" if code in _PERMANENT else "later", code, _text(reply), server_failed=code == _CLOSING)


def _text(reply: bytes | str) -> str:
    """Return a reply as one line without control characters and secrets."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return clean_text(" ".join(text.split()), _LONGEST_REPLY)


# -- messages of the outbox --------------------------------------------------------------------------------------------
# Headers are made by the older half of the standard library: the newer one parses what it is given, so that a subject
# that looks encoded would be decoded, and it loses spaces between words that it encodes.

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
