"""Receivers that are broken, slow or malicious: each costs bounded time and memory, without effect on others."""

import socket
import ssl
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from langlauf.delivery import checked_http, webhook
from tests.delivery.rig import rig
from tests.support.certificates import make_certificate
from tests.support.receiver import Handler, Manner, answer, cut_off, drip, endless, hang, receiving


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers on this machine stand for public ones, of which an org is told what they answer."""
    monkeypatch.setattr(webhook, "is_allowed_private", lambda *_: False)


_OK = b"HTTP/1.1 200 OK\r\n"


def drips_body(handler: Handler) -> None:
    handler.raw(_OK + b"content-length: 1000\r\n\r\n")
    drip(b"x" * 1000)(handler)


class Case(NamedTuple):
    """A manner of answering, and what becomes of a message that is answered so at every try."""

    manner: Manner
    status: str
    #: part of the error
    error: str | None = None
    tries: int = 2


CASES: dict[str, Case] = {
    "well": Case(answer(200), "sent", tries=1),
    "no-content": Case(answer(204), "sent", tries=1),
    "broken": Case(answer(500), "failed", "answered 500"),
    "unknown": Case(answer(404), "failed", "answered 404"),
    "gone": Case(answer(410), "failed", "410 Gone", tries=1),
    "busy": Case(answer(429, Retry_After="1"), "failed", "answered 429"),
    "away": Case(answer(503, Retry_After="nonsense"), "failed", "answered 503"),
    "inward": Case(answer(302, Location="http://169.254.169.254/"), "failed", "redirect"),
    "moved": Case(answer(308, Location="/elsewhere"), "failed", "redirect"),
    "drips-body": Case(drips_body, "sent", tries=1),
    "endless": Case(endless, "sent", tries=1),
    "endless-head": Case(cut_off(_OK + b"x: y\r\n" * 5_000), "failed", "head of the response is too long"),
    "only-interim": Case(cut_off(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000), "failed", "the response is too long"),
    "after-interim": Case(cut_off(b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n" + _OK + b"\r\n"), "sent", tries=1),
    "upgrades": Case(cut_off(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), "failed", "101"),
    "cut-head": Case(cut_off(_OK + b"content-le"), "failed", "response is incomplete"),
    "cut-body": Case(cut_off(_OK + b"content-length: 1000\r\n\r\nhalf"), "sent", tries=1),
    "bad-chunks": Case(cut_off(_OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n"), "sent", tries=1),
    "silent": Case(cut_off(b""), "failed", "closed without a response"),
    "garbage": Case(cut_off(b"\x00\x16\x03\x01SSH-2.0-hello\r\n\r\n"), "failed", "not HTTP"),
}
#: Those whose answer never comes to its end.
UNENDING: dict[str, Manner] = {"hangs": hang, "drips-head": drip(_OK * 1_000)}


def test_every_manner_of_answering_has_its_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, at one server: what each of them does to its own message, and to no other."""
    monkeypatch.setattr(checked_http, "_REPLY_SECONDS", 0.2)  # for the body that drips
    with rig(tmp_path, LANGLAUF_WEBHOOK_SCHEDULE="0.1") as sending, receiving() as receiver:
        receiver.manners = {f"/{name}": case.manner for name, case in CASES.items()}
        made = sending.endpoints(*(receiver.url(f"/{name}") for name in CASES))
        endpoints = {one.endpoint_id: name for one, name in zip(made, CASES, strict=True)}
        sending.run_job()
        messages = {endpoints[one.endpoint_id or ""]: one for one in sending.settled(number=len(CASES))}
        attempts = {name: sending.attempts(message) for name, message in messages.items()}
        disabled = sending.disabled()
    found = {name: (one.delivery_status, one.attempt_count) for name, one in messages.items()}
    assert found == {name: (case.status, case.tries) for name, case in CASES.items()}
    for name, case in CASES.items():
        error = messages[name].last_error
        assert error is None if case.error is None else case.error in (error or ""), (name, error)
        arrived = receiver.of(f"/{name}")
        assert len(arrived) == case.tries
        assert {one.message_id for one in arrived} == {messages[name].notification_id}
        assert all(len(attempt.reply or "") <= 1_000 for attempt in attempts[name])
    [dripped] = attempts["drips-body"]
    assert dripped.seconds < 60, "all of that body would have taken 100 seconds"
    assert receiver.of("/elsewhere") == []
    assert [endpoints[one] for one in disabled] == ["gone"]
    busy = receiver.of("/busy")
    assert busy[1].at - busy[0].at >= 1, "the receiver asked to be left alone for a second"


def test_an_answer_that_does_not_come_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    """Whether nothing comes, bytes drip, or no secure connection comes about; every try is given up so."""
    quick = {"LANGLAUF_WEBHOOK_SCHEDULE": "0.1", "LANGLAUF_WEBHOOK_SECONDS": "0.3"}
    with (
        rig(tmp_path, **quick) as sending,
        receiving() as receiver,
        socket.create_server(("127.0.0.1", 0)) as mute,
    ):
        receiver.manners = {f"/{name}": manner for name, manner in UNENDING.items()}
        urls = [*map(receiver.url, receiver.manners), f"https://127.0.0.1:{mute.getsockname()[1]}/"]
        sending.endpoints(*urls)
        sending.run_job()
        messages = sending.settled(number=len(urls))
    for message in messages:
        assert (message.delivery_status, message.attempt_count) == ("failed", 2)
        assert "no response within 0.3 s" in (message.last_error or "")


def test_of_an_answer_little_is_kept_and_no_secret(tmp_path: Path) -> None:
    text = "password=hunter2hunter2 \x1b[31m<script>alert(1)</script>\x00 " + "x" * 100_000
    with rig(tmp_path, LANGLAUF_WEBHOOK_SCHEDULE="0.1") as sending, receiving() as receiver:
        receiver.manners["/hook"] = answer(500, text)
        sending.endpoint(receiver.url())
        sending.run_job()
        [message] = sending.settled()
        reply = sending.attempts(message)[0].reply
    assert reply is not None
    assert len(reply) <= 1_000
    assert reply.startswith("password=[redacted]")
    assert "\x1b" not in reply
    assert "\x00" not in reply


def _tls(folder: Path) -> ssl.SSLContext:
    key, certificate = make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_a_certificate_must_be_one_that_is_trusted_and_of_that_name(tmp_path: Path) -> None:
    with (
        rig(tmp_path, LANGLAUF_WEBHOOK_SCHEDULE="0.1") as sending,
        receiving(trust=_tls(tmp_path)) as strange,
        receiving() as plain,
        closing(socket.socket()) as closed,
    ):
        closed.bind(("127.0.0.1", 0))  # not listening
        wrong = {
            sending.endpoint(url).endpoint_id: error
            for url, error in {
                strange.url(): "certificate is not trusted",
                plain.url().replace("http:", "https:"): "TLS failed",
                f"http://127.0.0.1:{closed.getsockname()[1]}/": "no connection: Connection refused",
            }.items()
        }
        sending.run_job()
        messages = sending.settled(number=3)
    for one in messages:
        assert one.delivery_status == "failed"
        assert wrong[one.endpoint_id or ""] in (one.last_error or "")
    assert strange.requests == []


def test_a_private_authority_can_be_trusted(tmp_path: Path) -> None:
    trust = _tls(tmp_path)
    quick = {"LANGLAUF_WEBHOOK_CA": str(tmp_path / "certificate.pem"), "LANGLAUF_WEBHOOK_SCHEDULE": "0.1"}
    with rig(tmp_path, **quick) as sending, receiving(trust=trust) as known:
        right = sending.endpoint(known.url().replace("127.0.0.1", "localhost"))
        sending.endpoint(known.url())
        sending.run_job()
        messages = {one.endpoint_id == right.endpoint_id: one for one in sending.settled(number=2)}
    assert messages[True].delivery_status == "sent"
    assert messages[False].delivery_status == "failed", "the certificate is of another name"
    assert len(known.requests) == 1


def test_one_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """Ten messages for one that never answers, while another one is told of ten jobs."""
    with rig(tmp_path, LANGLAUF_WEBHOOK_SECONDS="600") as sending, receiving() as receiver:
        receiver.manners["/hangs"] = hang
        sending.endpoint(receiver.url("/hangs"), org="slow")
        sending.endpoint(receiver.url("/well"), org="quick")
        for _ in range(10):
            sending.run_job("slow")
        receiver.wait_for(1, "/hangs")
        for number in range(1, 11):
            sending.run_job("quick")
            receiver.wait_for(number, "/well")
        receiver.wait_for(2, "/hangs")
        assert len(receiver.of("/well")) == 10
        assert len(receiver.of("/hangs")) == 2, "two at once, and no more"


def test_messages_are_delivered_after_an_outage_of_the_receiver(tmp_path: Path) -> None:
    with rig(tmp_path, LANGLAUF_WEBHOOK_SCHEDULE=",".join(["0.5"] * 100)) as sending, closing(socket.socket()) as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))  # it does not listen: calls are refused, and no other program gets the port
        port = kept.getsockname()[1]
        sending.endpoint(f"http://127.0.0.1:{port}/hook")
        jobs = {sending.run_job()["job_id"] for _ in range(2)}
        sending.until(lambda: all(one.last_error for one in sending.messages()))
        with receiving(port=port) as after:
            after.wait_for(2)
            messages = sending.settled(number=2)
    assert {one.job_id for one in messages} == jobs
    assert all(one.delivery_status == "sent" and one.attempt_count > 1 for one in messages)
    assert {one.message_id for one in after.requests} == {one.notification_id for one in messages}
