"""From a submission to the delivered mail: a real server, a real mail server, every kind of reply."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.domain.delivery import Notification
from langlauf.telemetry.log import LogEvent
from tests.delivery.rig import Rig, rig
from tests.support.smtp_server import PASSWORD, SmtpServer, Taken, smtp_server_in_thread

FROM = "Jobs <jobs@sender.example>"
TO = "who@mail.example"
PUBLIC = "https://jobs.example/app"


class Post(Rig):
    """A server that sends mail, and who takes it."""

    office: SmtpServer

    def run(self, org: str, analysis: str = "echo", *, language: str | None = None, **values: Any) -> dict[str, Any]:
        """Run a job to its end, with a mail about it."""
        notify = {"email": TO} if language is None else {"email": TO, "language": language}
        mode = {"requested": True, "notify": notify, "max_retries": 0}
        body = {"analysis": analysis, "input": values, "options": {"async_mode": mode}}
        made = self.live.http.post("/analyze", json=body, headers={"X-Org-Id": org})
        assert made.status_code == 202, made.text
        return self.live.wait(made.json()["job"]["job_id"], org)

    def mail(self, org: str) -> tuple[Notification, list[Taken]]:
        """What became of the one mail of an org, and what arrived."""
        [message] = self.settled(org)
        return message, [one for one in self.office.taken if message.notification_id in one.mail["Message-ID"]]


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    folder = tmp_path_factory.mktemp("post")
    with smtp_server_in_thread() as office:
        settings = {"LANGLAUF_SMTP": f"smtp://127.0.0.1:{office.port}", "LANGLAUF_MAIL_FROM": FROM}
        with rig(folder, **settings, LANGLAUF_PUBLIC_URL=PUBLIC) as running:
            made = Post(running.live)
            made.office = office
            yield made


def texts(taken: Taken) -> tuple[str, str]:
    """Both forms of a mail."""
    plain, html = taken.mail.iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    return plain.get_content(), html.get_content()


def test_a_completed_job_sends_one_mail(post: Post) -> None:
    """To the one address, in English where no language was asked for, with a link to the result."""
    job = post.run("told", query="Bern")
    message, [taken] = post.mail("told")
    assert (message.delivery_status, message.attempt_count, message.last_error) == ("sent", 1, None)
    assert (taken.receivers, str(taken.mail["To"]), str(taken.mail["From"])) == ((TO,), TO, FROM)
    assert (str(taken.mail["Subject"]), taken.mail["Content-Language"]) == ("Completed: echo (told)", "en")
    assert taken.mail["Message-ID"] == f"<{message.notification_id}@sender.example>"
    for text in texts(taken):
        assert f"{PUBLIC}/results/{job['result_id']}" in text
        assert "echo has completed" in text
        assert "told" in text
        assert job["job_id"] in text
    [attempt] = post.attempts(message)
    assert (attempt.status, attempt.status_code, attempt.reply) == ("sent", 250, "2.0.0 queued as 4711")


def test_the_mail_about_a_failed_job_has_its_reason(post: Post) -> None:
    """In German where that was asked for: what went wrong, what may help, and where to look."""
    job = post.run("unhappy", "failing", language="de", how="permanent")
    _, [taken] = post.mail("unhappy")
    assert (str(taken.mail["Subject"]), taken.mail["Content-Language"]) == ("Fehlgeschlagen: failing (unhappy)", "de")
    for text in texts(taken):
        assert job["error_message"] in text
        assert job["error_code"] in text
        assert "Vor dem erneuten Ausführen die Eingabe prüfen." in text
        assert f"{PUBLIC}/jobs/{job['job_id']}" in text


def test_a_canceled_job_sends_no_mail(post: Post) -> None:
    """The person who canceled it knows."""
    body = {"analysis": "gated", "input": {"gate": "never"}, "options": {"async_mode": {"requested": True}}}
    body["options"]["async_mode"]["notify"] = {"email": TO}  # type: ignore[index]
    made = post.live.http.post("/analyze", json=body, headers={"X-Org-Id": "canceled"}).json()["job"]
    post.live.http.post(f"/analyze/jobs/{made['job_id']}/cancel", json={}, headers={"X-Org-Id": "canceled"})
    post.live.wait(made["job_id"], "canceled")
    assert post.messages("canceled") == []


@pytest.mark.parametrize(
    ("org", "step", "said"),
    [
        ("greylisted", "RCPT", ["450 4.2.0 greylisted", "450 4.2.0 greylisted"]),
        ("busy", "MAIL", ["451 4.3.0 busy"]),
        ("dropped", "RCPT", ["cut"]),
    ],
)
def test_a_temporary_failure_is_retried(post: Post, org: str, step: str, said: list[str]) -> None:
    """By the same schedule as webhooks."""
    post.office.answers[step] = list(said)
    post.run(org, query="again")
    message, taken = post.mail(org)
    assert (message.delivery_status, message.attempt_count, len(taken)) == ("sent", len(said) + 1, 1)
    assert [one.status for one in post.attempts(message)] == ["sent", *["pending"] * len(said)]


def test_a_mail_whose_reply_was_lost_is_sent_again_with_its_message_id(post: Post) -> None:
    """At least once, and both have the same Message-ID."""
    post.office.answers["DATA"] = ["cut"]
    post.run("twice", query="again")
    message, taken = post.mail("twice")
    assert (message.delivery_status, message.attempt_count) == ("sent", 2)
    assert [one.mail["Message-ID"] for one in taken] == [f"<{message.notification_id}@sender.example>"] * 2


def test_an_unknown_receiver_is_not_retried(post: Post) -> None:
    """Failed at the first try; whom it was for does not stand in what is kept and logged about it."""
    post.office.answers["RCPT"] = [f"550 5.1.1 <{TO}> no such user"]
    post.run("unknown", query="nobody")
    message, taken = post.mail("unknown")
    assert (message.delivery_status, message.attempt_count, taken) == ("failed", 1, [])
    assert message.last_error == "the mail server answered 550: 5.1.1 <[receiver]> no such user"


def test_a_rejected_sender_is_logged_for_the_operator(
    post: Post, told: Callable[[LogEvent], list[dict[str, Any]]]
) -> None:
    """It waits, all mail of the org with it, and the log says so loudly."""
    post.office.answers["MAIL"] = ["550 5.7.1 not allowed to send as that"]
    post.run("forbidden", query="wait")
    [waiting] = post.until(lambda: [one for one in post.messages("forbidden") if one.last_error])
    assert (waiting.delivery_status, waiting.attempt_count) == ("pending", 1)
    assert [fact["reason"] for fact in told(LogEvent.MAIL_MISCONFIGURED)] == [
        "the mail server answered 550: 5.7.1 not allowed to send as that"
    ]
    assert post.ask(lambda store: store.deliveries.figures()).paused_lanes == 1


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[LogEvent], list[dict[str, Any]]]:
    """What was told of a fact."""
    return lambda fact: [vars(one)["fields"] for one in caplog.records if one.getMessage() == fact]


def test_on_postgresql_as_well(tmp_path: Path, database: str) -> None:
    """With the language of the wish, and tried again where the server is busy."""
    with smtp_server_in_thread() as office:
        office.answers["RCPT"] = ["450 4.2.0 greylisted"]
        settings = {"LANGLAUF_SMTP": f"smtp://127.0.0.1:{office.port}", "LANGLAUF_MAIL_FROM": FROM}
        with rig(tmp_path, LANGLAUF_STORE=database, **settings) as running:
            post = Post(running.live)
            post.office = office
            job = post.run("told", language="de", query="Bern")
            message, [taken] = post.mail("told")
    assert (message.delivery_status, message.attempt_count) == ("sent", 2)
    assert str(taken.mail["Subject"]) == "Abgeschlossen: echo (told)"
    assert all(job["job_id"] in text for text in texts(taken))


def test_without_a_mail_server_nothing_is_tried(tmp_path: Path) -> None:
    """Suppressed: neither sent nor failed, with what to do about it."""
    with rig(tmp_path) as running:
        post = Post(running.live)
        post.run("quiet", query="hush")
        [message] = post.settled("quiet")
    assert message.delivery_status == "suppressed"
    assert message.last_error is not None
    assert "LANGLAUF_SMTP" in message.last_error


def test_a_hanging_mail_server_does_not_block_for_long(
    tmp_path: Path, told: Callable[[LogEvent], list[dict[str, Any]]]
) -> None:
    """Each try ends at its deadline; after the last one the mail has failed, and the password is nowhere."""
    with smtp_server_in_thread() as office:
        settings = {
            "LANGLAUF_SMTP": f"smtp://post:pass%40word%3A1%2F2@127.0.0.1:{office.port}",
            "LANGLAUF_MAIL_FROM": FROM,
            "LANGLAUF_WEBHOOK_SCHEDULE": "0.1",
            "LANGLAUF_WEBHOOK_SECONDS": "0.5",
        }
        office.answers["RCPT"] = ["hang"] * 10  # more than there are tries: a slow machine may lose one before it
        with rig(tmp_path, **settings) as running:
            post = Post(running.live)
            post.run("hung", query="wait")
            [message] = post.settled("hung")
            assert (message.delivery_status, message.attempt_count) == ("failed", 2)
            assert "within 0.5 s" in (message.last_error or "")
            assert PASSWORD not in repr([message, post.attempts(message), told(LogEvent.DELIVERY_FAILED)])
