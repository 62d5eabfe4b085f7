"""Sends one mail by SMTP, in a thread of its own and within one deadline.

The result is a value: accepted, to be retried, rejected for good, or rejected because of the settings. A mail whose
last reply got lost counts as not accepted, and is sent again with the same Message-ID.
"""

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from langlauf.analysis.payload import run_in_thread
from langlauf.domain.mail import MailSender, MailServer
from langlauf.domain.redact import clean_text

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
