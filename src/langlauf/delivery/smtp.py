"""One mail by SMTP: in a thread of its own and within one deadline, whatever the server does or does not do.

What becomes of it is a value: the server took it, it may take it later, it never will, or somebody has to look at the
settings. A mail whose last answer got lost counts as not taken: it is sent again under the same mark.
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

from langlauf.domain.mail import MailSender, MailServer
from langlauf.domain.redact import clean_text

T = TypeVar("T")
#: Of what a server says, as much as tells its reason.
_LONGEST_REPLY = 500
_FAREWELL_SECONDS = 2.0
_TAKEN = 250
_FORWARDED = 251
_CLOSING = 421
_PERMANENT = range(500, 600)

#: `taken`; `later`, to be tried again; `never`, for this receiver or this mail; `settings`, to be tried again when
#: somebody has looked at them, because no mail at all gets through.
Verdict = Literal["taken", "later", "never", "settings"]


class Answer(msgspec.Struct, frozen=True):
    """What became of a mail, and what the server said."""

    verdict: Verdict
    #: the number of the server's last answer, where there was one
    code: int | None
    said: str
    #: whether any other mail would have fared the same
    everybody: bool = False


class _GivenUp(Exception):
    """The deadline is over: nothing more is to be said to the server."""


async def send(server: MailServer, sender: MailSender, to: str, mail: bytes, *, seconds: float) -> Answer:
    """Hands one mail to the server. It has left this process, or it never will, when this returns."""
    call = _Call(server, sender, to, mail, seconds)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Answer] = loop.create_future()

    def tell(answer: Answer) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(answer))

    # A thread that is not waited for at the exit: one that asks for a name can be held up by it.
    threading.Thread(target=call.run, args=(tell,), name="langlauf-mail", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await done
    except TimeoutError:
        said = f"{server.shown} did not take the mail within {seconds:g} s"
        return Answer("later", None, said, everybody=True)
    finally:
        if not done.done() or done.cancelled():
            call.give_up()


class _Call:
    """One connection, from greeting to farewell."""

    def __init__(self, server: MailServer, sender: MailSender, to: str, mail: bytes, seconds: float) -> None:
        self._server = server
        self.sender = sender
        self._to = to
        self._mail = mail
        self.seconds = seconds
        #: from its first moment on, so that it can be cut at any
        self.client: smtplib.SMTP | None = None
        self._over = threading.Event()

    def run(self, tell: Callable[[Answer], None]) -> None:
        """Sends the mail and tells what became of it; the farewell comes after that and changes nothing."""
        try:
            tell(self._sent())
        except _GivenUp:
            pass
        except (OSError, smtplib.SMTPException, ValueError) as error:
            tell(_answer(error, self._server))
        self._leave()

    def give_up(self) -> None:
        """Cuts the connection, from another thread: what has not been said is not said any more."""
        self._over.set()
        line = self.client.sock if self.client is not None else None
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _sent(self) -> Answer:
        client = self._opened()
        code, said = self._say(lambda: client.mail(self.sender.address))
        if code != _TAKEN:
            return Answer("settings" if code in _PERMANENT else "later", code, _text(said), everybody=True)
        code, said = self._say(lambda: client.rcpt(self._to))
        if code not in {_TAKEN, _FORWARDED}:
            return _refused(code, said)
        code, said = self._say(lambda: client.data(self._mail))
        return Answer("taken", code, _text(said)) if code == _TAKEN else _refused(code, said)

    def _opened(self) -> smtplib.SMTP:
        """Connected, under TLS where it is a must, and logged in where there is a user."""
        server = self._server
        client: smtplib.SMTP = (_Closed if server.tls == "implicit" else _Open)(self, server)
        if server.tls == "starttls":
            self._say(lambda: client.starttls(context=ssl.create_default_context()))
        if server.user is not None and server.password is not None:
            user, password = server.user, server.password
            self._say(lambda: client.login(user, password))
        self._say(client.ehlo_or_helo_if_needed)
        return client

    def _say(self, step: Callable[[], T]) -> T:
        """One step of the talk, unless it is over."""
        if self._over.is_set():
            raise _GivenUp
        return step()

    def _leave(self) -> None:
        client = self.client
        if client is None:
            return
        with contextlib.suppress(OSError, smtplib.SMTPException):
            if client.sock is not None and not self._over.is_set():
                client.sock.settimeout(_FAREWELL_SECONDS)
                client.quit()
        client.close()


class _Open(smtplib.SMTP):
    """A connection in the open, at least to begin with."""

    def __init__(self, call: _Call, server: MailServer) -> None:
        call.client = self
        super().__init__(server.host, server.port, call.sender.domain, timeout=call.seconds)


class _Closed(smtplib.SMTP_SSL):
    """A connection under TLS from the first byte."""

    def __init__(self, call: _Call, server: MailServer) -> None:
        call.client = self
        context = ssl.create_default_context()
        super().__init__(server.host, server.port, call.sender.domain, timeout=call.seconds, context=context)


def _answer(error: Exception, server: MailServer) -> Answer:
    """What an error of the talk means for the mail."""
    match error:
        case smtplib.SMTPAuthenticationError():
            verdict: Verdict = "settings" if error.smtp_code in _PERMANENT else "later"
            return Answer(verdict, error.smtp_code, f"login refused: {_text(error.smtp_error)}", everybody=True)
        case smtplib.SMTPDataError():
            return _refused(error.smtp_code, error.smtp_error)
        case smtplib.SMTPResponseException():
            return Answer("later", error.smtp_code, _text(error.smtp_error), everybody=True)
    said = f"{server.shown}: {_text(str(error) or type(error).__name__)}"
    # What is not offered, whom nobody vouches for, and a name that cannot be written: none of that passes by itself.
    lasting = isinstance(error, smtplib.SMTPNotSupportedError | ssl.SSLCertVerificationError | UnicodeError)
    return Answer("settings" if lasting else "later", None, said, everybody=True)


def _refused(code: int, said: bytes | str) -> Answer:
    """A mail that is not taken for its receiver or for what is in it; 421 says that the server is about to close."""
    return Answer("never" if code in _PERMANENT else "later", code, _text(said), everybody=code == _CLOSING)


def _text(said: bytes | str) -> str:
    """What a server said, on one line and fit to be kept."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return clean_text(" ".join(text.split()), _LONGEST_REPLY)
