"""`langlauf mail-test`: what the mail server answered, for people and for machines, and with which code it ends."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.domain.errors import SettingsError
from langlauf.domain.mail import MailSender, MailServer, read_mail_server, read_sender
from langlauf.settings import load_settings
from tests.support.smtp_server import PASSWORD, SmtpServer, smtp_server_in_thread

TO = "who@mail.example"


@pytest.fixture(scope="module")
def office() -> Iterator[SmtpServer]:
    with smtp_server_in_thread() as made:
        yield made


def run(*words: str, **environment: str) -> Result:
    """The command, in an environment of its own."""
    names = {name: environment.get(name) for name in ("LANGLAUF_SMTP", "LANGLAUF_MAIL_FROM")}
    return CliRunner().invoke(main, ["mail-test", *words], env={**names, **environment})


def through(office: SmtpServer, *words: str, login: str = "") -> Result:
    smtp = f"smtp://{login}127.0.0.1:{office.port}"
    return run(TO, *words, LANGLAUF_SMTP=smtp, LANGLAUF_MAIL_FROM="Jobs <jobs@sender.example>")


def test_a_mail_that_is_taken(office: SmtpServer) -> None:
    """Says what the server said, and sends what it says."""
    shown = through(office, "--mail-language", "de")
    assert (shown.exit_code, shown.stdout) == (
        0,
        f"smtp://127.0.0.1:{office.port} accepted the mail for {TO}: 250 2.0.0 queued as 4711\n",
    )
    assert "spam" in shown.stderr
    assert str(office.taken[-1].mail["Subject"]) == "Test-E-Mail von Langlauf"
    answer = json.loads(through(office, "--json").stdout)
    assert answer.pop("seconds") < 15
    assert answer == {
        "verdict": "taken",
        "code": 250,
        "said": "2.0.0 queued as 4711",
        "server": f"smtp://127.0.0.1:{office.port}",
    }


@pytest.mark.parametrize(
    ("step", "said", "code", "advice"),
    [
        ("RCPT", "550 5.1.1 no such user", 1, "rejects this address"),
        ("RCPT", "450 4.2.0 greylisted", 1, "may be temporary"),
        ("MAIL", "550 5.7.1 not as that", 1, "LANGLAUF_MAIL_FROM"),
        ("RCPT", "cut", 5, "may be temporary"),
    ],
)
def test_a_mail_that_is_not_taken(office: SmtpServer, step: str, said: str, code: int, advice: str) -> None:
    """Says why, and what to look at."""
    office.answers[step] = [said]
    shown = through(office)
    assert (shown.exit_code, shown.stdout) == (code, "")
    assert said == "cut" or f"was not accepted: {said}" in shown.stderr
    assert advice in shown.stderr


def test_a_wrong_password_is_not_shown(office: SmtpServer) -> None:
    """Neither where it is refused nor where the address of the server cannot be read."""
    shown = through(office, login="post:secretly@")
    assert (shown.exit_code, "535" in shown.stderr) == (1, True)
    unreadable = run(TO, LANGLAUF_SMTP="smpt://post:secretly@host", LANGLAUF_MAIL_FROM="jobs@sender.example")
    assert (unreadable.exit_code, "LANGLAUF_SMTP" in unreadable.stderr) == (1, True)
    for one in (shown, unreadable):
        assert "secretly" not in one.output


def test_an_unreachable_server() -> None:
    """The code of a server that cannot be reached."""
    shown = run(TO, LANGLAUF_SMTP="smtp://127.0.0.1:1", LANGLAUF_MAIL_FROM="jobs@sender.example")
    assert shown.exit_code == 5
    assert "smtp://127.0.0.1:1: " in shown.stderr


def test_what_is_missing_or_wrong_is_said() -> None:
    """No settings, no address: nothing is sent."""
    none = run(TO)
    assert (none.exit_code, "LANGLAUF_SMTP" in none.stderr) == (1, True)
    half = run(TO, LANGLAUF_SMTP="smtp://127.0.0.1:1")
    assert (half.exit_code, "LANGLAUF_MAIL_FROM" in half.stderr) == (1, True)
    bad = run("nobody", LANGLAUF_SMTP="smtp://127.0.0.1:1", LANGLAUF_MAIL_FROM="jobs@sender.example")
    assert (bad.exit_code, "plain e-mail address" in bad.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("smtp://mail.example", {"host": "mail.example", "port": 587, "tls": "starttls"}),
        ("smtp://mail.example:25?tls=none", {"host": "mail.example", "port": 25, "tls": "none"}),
        ("smtp://127.0.0.1:25", {"host": "127.0.0.1", "port": 25, "tls": "none"}),
        ("smtp://[::1]:25", {"host": "::1", "port": 25, "tls": "none"}),
        ("smtp://localhost:25?tls=required", {"host": "localhost", "port": 25, "tls": "starttls"}),
        ("smtps://mail.example", {"host": "mail.example", "port": 465, "tls": "implicit"}),
        (
            "smtp://a%40b:pass%40word%3A1%2F2@mail.example/",
            {"host": "mail.example", "port": 587, "tls": "starttls", "user": "a@b", "password": PASSWORD},
        ),
    ],
)
def test_the_address_of_a_server(text: str, server: dict[str, Any]) -> None:
    """What is not said follows from where it is; what is printed has no password."""
    read = read_mail_server(text)
    assert read == MailServer(**server)
    settings = load_settings({"LANGLAUF_SMTP": text, "LANGLAUF_MAIL_FROM": "jobs@sender.example"})
    for shown in (repr(read), str(read), repr(settings), read.shown):
        assert PASSWORD not in shown


@pytest.mark.parametrize(
    "text",
    [
        "", "mail.example", "http://mail.example", "smtp://", "smtp://host:0", "smtp://host:x", "smtp://[::1",
        "smtp://host/path", "smtp://user@host", "smtp://host?tls=perhaps", "smtp://host?starttls=1",
        "smtps://host?tls=none", "smtp://host#x", "smtp://user:geheim@host:99999",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_server(text: str) -> None:
    """It is refused by the name of the setting, and not repeated."""
    with pytest.raises(SettingsError, match="LANGLAUF_SMTP: ") as refused:
        load_settings({"LANGLAUF_SMTP": text, "LANGLAUF_MAIL_FROM": "jobs@sender.example"})
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sender"),
    [
        ("jobs@sender.example", MailSender("jobs@sender.example")),
        ("Jobs <jobs@sender.example>", MailSender("jobs@sender.example", "Jobs")),
        ('"Jobs, nightly" <jobs@sender.example>', MailSender("jobs@sender.example", "Jobs, nightly")),
        ("Büro Zürich <jobs@sender.example>", MailSender("jobs@sender.example", "Büro Zürich")),
    ],
)
def test_whom_mail_comes_from(text: str, sender: MailSender) -> None:
    """An address, with a name or without."""
    assert read_sender(text) == sender


@pytest.mark.parametrize("text", ["", "Jobs", "Jobs <jobs>", "a@b.example, c@d.example", "J\nBcc: x <jobs@b.example>"])
def test_whom_mail_cannot_come_from(text: str) -> None:
    """One address, and no header of its own."""
    with pytest.raises(SettingsError, match="LANGLAUF_MAIL_FROM"):
        load_settings({"LANGLAUF_MAIL_FROM": text})
