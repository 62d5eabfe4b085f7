"""A real mail server on this machine: what it took, and what it was told to answer."""

import asyncio
import ssl
import threading
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import msgspec
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

USER, PASSWORD = "post", "pass@word:1/2"


class Taken(msgspec.Struct, frozen=True):
    """A mail as it came over the wire."""

    sender: str
    receivers: tuple[str, ...]
    data: bytes
    #: whether the connection was under TLS, and who had logged in
    tls: bool
    login: bytes | None

    @property
    def mail(self) -> EmailMessage:
        """The mail as any program for mail reads it."""
        read = message_from_bytes(self.data, policy=default)
        assert isinstance(read, EmailMessage)
        return read


class SmtpServer:
    """Takes mail. A step that has answers written down gives those first; `cut` drops the connection instead."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.answers: dict[str, list[str]] = defaultdict(list)
        self.port = 0
        #: connections that are open, and what is set while there are none
        self.open: set[object] = set()
        self.quiet = asyncio.Event()
        self.quiet.set()

    def _answer(self, step: str, server: Any, usual: str = "250 OK") -> str:
        said = self.answers[step].pop(0) if self.answers[step] else usual
        if said == "cut":
            server.transport.abort()
        return said

    async def _said(self, step: str, server: Any, usual: str = "250 OK") -> str:
        said = self._answer(step, server, usual)
        if said == "hang":
            await asyncio.Event().wait()  # until the other end goes away
        return said

    async def handle_MAIL(self, server: Any, _: Any, envelope: Any, address: str, options: list[str]) -> str:  # noqa: N802 - so the server calls it
        """MAIL FROM."""
        envelope.mail_from, envelope.mail_options = address, options
        return await self._said("MAIL", server)

    async def handle_RCPT(self, server: Any, _: Any, envelope: Any, address: str, __: list[str]) -> str:  # noqa: N802 - so the server calls it
        """RCPT TO."""
        envelope.rcpt_tos.append(address)
        return await self._said("RCPT", server)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - so the server calls it
        """The mail itself. One whose connection is cut has been taken all the same."""
        said = await self._said("DATA", server, "250 2.0.0 queued as 4711")
        if said[0] not in "45":
            login = session.auth_data.login if session.authenticated else None
            tls = session.ssl is not None
            receivers = tuple(envelope.rcpt_tos)
            self.taken.append(Taken(envelope.mail_from, receivers, envelope.content, tls, login))
        return said

    def authenticate(self, server: Any, _: Any, __: Any, ___: str, shown: Any) -> AuthResult:
        """Who may log in, unless something else is written down."""
        said = self._answer("AUTH", server, "")
        right = isinstance(shown, LoginPassword) and (shown.login, shown.password) == (USER.encode(), PASSWORD.encode())
        if said:
            return AuthResult(success=False, handled=False, message=said)
        return AuthResult(success=right, handled=False, auth_data=shown)


class _Talk(SMTP):
    """A connection that its office knows of."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.event_handler.open.add(self)
        self.event_handler.quiet.clear()
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.event_handler.open.discard(self)
        if not self.event_handler.open:
            self.event_handler.quiet.set()


@asynccontextmanager
async def smtp_server(
    certificate: tuple[Path, Path] | None = None, *, implicit: bool = False, login: bool = False
) -> AsyncIterator[SmtpServer]:
    """A server in this loop; with a certificate it speaks TLS, from the first byte or when asked to."""
    office = SmtpServer()
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate[1], certificate[0])

    def talk() -> _Talk:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a login in the open: nobody listens on this machine
            return _Talk(
                office,
                hostname="post.example",
                tls_context=None if implicit else context,
                require_starttls=context is not None and not implicit,
                authenticator=office.authenticate,
                auth_required=login,
                auth_require_tls=context is not None and not implicit,
            )

    server = await asyncio.get_running_loop().create_server(talk, "127.0.0.1", 0, ssl=context if implicit else None)
    office.port = server.sockets[0].getsockname()[1]
    try:
        yield office
    finally:
        server.close()
        await server.wait_closed()
        async with asyncio.timeout(60):
            await office.quiet.wait()
            await asyncio.sleep(0)  # what is lost is closed in the next round


@contextmanager
def smtp_server_in_thread() -> Iterator[SmtpServer]:
    """A server in a thread of its own, for tests that wait for another one."""
    ready: Future[SmtpServer] = Future()
    over = threading.Event()

    async def main() -> None:
        async with smtp_server() as office:
            ready.set_result(office)
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        yield ready.result(timeout=60)
    finally:
        over.set()
        thread.join()
