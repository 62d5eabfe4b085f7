"""Handing one mail to a real server: what is taken, what is tried again, what never will be taken."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from langlauf.delivery.mail import SmtpResult, encode_email, send_mail
from langlauf.domain.mail import Email, MailSender, read_mail_server
from tests.support.certificates import make_certificate
from tests.support.processes import eventually
from tests.support.smtp_server import PASSWORD, USER, SmtpServer, smtp_server
from tests.support.stores import START

SENDER = MailSender("jobs@sender.example", "Jobs")
TO = "who@mail.example"
LOGIN = "post:pass%40word%3A1%2F2@"
LETTER = Email(subject="Über alles", text=".\nzwei\n", html="<p>zwei</p>", language="de")


def mail() -> bytes:
    return encode_email(LETTER, sender=SENDER, to=TO, message_id="<one@sender.example>", now=START)


async def sent(address: str, seconds: float = 60.0) -> SmtpResult:
    return await send_mail(read_mail_server(address), SENDER, TO, mail(), seconds=seconds)


def through(use: Callable[[SmtpServer], Awaitable[SmtpResult]], **how: Any) -> tuple[SmtpResult, SmtpServer]:
    """Sends through a server and tells what both sides have."""

    async def run() -> tuple[SmtpResult, SmtpServer]:
        async with smtp_server(**how) as office:
            return await use(office), office

    return asyncio.run(run())


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A certificate for localhost that this program trusts."""
    made = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made[1]))
    return made


def test_the_event_loop_does_not_wait_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start returns once the new thread runs, which takes its time on a busy machine."""
    start, starters = threading.Thread.start, list[int]()

    def noted(self: threading.Thread) -> None:
        if self.name == "langlauf-mail":
            starters.append(threading.get_ident())
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    answer, _ = through(lambda office: sent(f"smtp://127.0.0.1:{office.port}"))
    assert answer.verdict == "taken"
    assert len(starters) == 1
    assert threading.get_ident() not in starters


def test_a_mail_arrives_as_it_was_written() -> None:
    """Both forms of the text, one receiver, and a lone dot is no end."""
    answer, office = through(lambda office: sent(f"smtp://127.0.0.1:{office.port}"))
    assert (answer.verdict, answer.code, answer.reply) == ("taken", 250, "2.0.0 queued as 4711")
    [taken] = office.taken
    assert (taken.sender, taken.receivers, taken.tls, taken.login) == (SENDER.address, (TO,), False, None)
    read = taken.mail
    assert read.get_content_type() == "multipart/alternative"
    plain, html = read.iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert (plain.get_content().replace("\r", ""), html.get_content().strip()) == (LETTER.text, LETTER.html)
    assert {name: str(read[name]) for name in ("From", "To", "Subject", "Message-ID", "Auto-Submitted")} == {
        "From": "Jobs <jobs@sender.example>",
        "To": TO,
        "Subject": "Über alles",
        "Message-ID": "<one@sender.example>",
        "Auto-Submitted": "auto-generated",
    }
    assert read["Date"].datetime.timestamp() == START // 1_000_000
    assert taken.data.isascii()


def test_under_starttls_with_a_login(certificate: tuple[Path, Path]) -> None:
    """The name and the password come from the address, as they were escaped there."""
    answer, office = through(
        lambda office: sent(f"smtp://{LOGIN}localhost:{office.port}?tls=required"), certificate=certificate, login=True
    )
    assert answer.verdict == "taken", answer
    assert [(one.tls, one.login) for one in office.taken] == [(True, USER.encode())]


def test_under_tls_from_the_first_byte(certificate: tuple[Path, Path]) -> None:
    """As port 465 has it."""
    answer, office = through(
        lambda office: sent(f"smtps://{LOGIN}localhost:{office.port}"),
        certificate=certificate,
        implicit=True,
        login=True,
    )
    assert answer.verdict == "taken", answer
    assert len(office.taken) == 1


def test_a_server_without_starttls_gets_nothing() -> None:
    """Neither the mail nor the password goes over an open line that was to be closed."""
    answer, office = through(lambda office: sent(f"smtp://{LOGIN}localhost:{office.port}?tls=required"))
    assert (answer.verdict, office.taken) == ("settings", [])
    assert PASSWORD not in answer.reply


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    """So is the mail."""
    answer, office = through(
        lambda office: sent(f"smtp://localhost:{office.port}?tls=required"), certificate=make_certificate(tmp_path)
    )
    assert (answer.verdict, office.taken) == ("settings", [])
    assert "certificate" in answer.reply


def test_a_refused_login_is_a_matter_of_settings() -> None:
    """No mail to any receiver is accepted; a failure that may be temporary is retried."""
    wrong, _ = through(lambda office: sent(f"smtp://post:wrong@127.0.0.1:{office.port}"), login=True)
    assert (wrong.verdict, wrong.code) == ("settings", 535)

    def busy(office: SmtpServer) -> Awaitable[SmtpResult]:
        office.answers["AUTH"] = ["454 4.7.0 try later", "454 4.7.0 try later"]
        return sent(f"smtp://{LOGIN}127.0.0.1:{office.port}")

    later, _ = through(busy, login=True)
    assert (later.verdict, later.code) == ("later", 454)


@pytest.mark.parametrize(
    ("step", "said", "verdict"),
    [
        ("MAIL", "451 4.3.0 busy", "later"),
        ("MAIL", "550 5.7.1 you may not send as that", "settings"),
        ("RCPT", "450 4.2.0 greylisted", "later"),
        ("RCPT", "452 4.2.2 full", "later"),
        ("RCPT", "421 4.3.2 closing", "later"),
        ("RCPT", "550 5.1.1 no such user", "never"),
        ("DATA", "451 4.3.0 busy", "later"),
        ("DATA", "554 5.7.1 refused", "never"),
        ("MAIL", "cut", "later"),
        ("RCPT", "cut", "later"),
    ],
)
def test_what_each_answer_means(step: str, said: str, verdict: str) -> None:
    """By its number and by what was asked."""

    def use(office: SmtpServer) -> Awaitable[SmtpResult]:
        office.answers[step] = [said]
        return sent(f"smtp://127.0.0.1:{office.port}")

    answer, office = through(use)
    assert (answer.verdict, office.taken) == (verdict, [])
    assert answer.server_failed == (step == "MAIL" or said == "cut" or said.startswith("421"))
    assert said == "cut" or (str(answer.code), answer.reply) == tuple(said.split(" ", 1))


def test_a_mail_whose_last_answer_got_lost_counts_as_not_taken() -> None:
    """It is sent again with the same Message-ID, so that a receiver can recognise the duplicate."""

    async def twice(office: SmtpServer) -> SmtpResult:
        office.answers["DATA"] = ["cut"]
        first = await sent(f"smtp://127.0.0.1:{office.port}")
        assert first.verdict == "later", first
        return await sent(f"smtp://127.0.0.1:{office.port}")

    answer, office = through(twice)
    assert answer.verdict == "taken"
    assert [one.mail["Message-ID"] for one in office.taken] == ["<one@sender.example>"] * 2


@pytest.mark.parametrize("greeting", [b"", b"220 post.example\r\n"])
def test_a_server_that_hangs_is_left_at_the_deadline(greeting: bytes) -> None:
    """Before its greeting or after it, and byte by byte: one deadline for all. Nothing is left behind."""

    async def run() -> SmtpResult:
        gone = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            while not reader.at_eof():
                writer.write(b"2")  # never a whole line
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await reader.read()
            writer.close()
            gone.set()

        async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            answer = await sent(f"smtp://127.0.0.1:{port}", seconds=0.4)
            async with asyncio.timeout(60):
                await gone.wait()
            return answer

    answer = asyncio.run(run())
    assert answer.verdict == "later"
    assert "0.4 s" in answer.reply
    eventually(lambda: all(thread.name != "langlauf-mail" for thread in threading.enumerate()))


def test_an_unreachable_server() -> None:
    """A closed port, and a name that does not exist."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # it does not listen
        refused = asyncio.run(sent(f"smtp://127.0.0.1:{deaf.getsockname()[1]}"))
    assert (refused.verdict, refused.code) == ("later", None)
    unknown = asyncio.run(sent("smtp://nobody.invalid:25?tls=none", seconds=5))  # where no name server answers, too
    assert (unknown.verdict, unknown.code) == ("later", None)
