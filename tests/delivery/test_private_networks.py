"""Receivers inside a network that the operator named: which orgs may call them, and how little they learn of them."""

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from langlauf.clock import monotonic
from langlauf.telemetry.log import LogEvent
from tests.delivery.rig import Rig, rig
from tests.support.receiver import answer, cut_off, receiving

_SECRET_ANSWER = "the ledger of the house"
_SHORT_SECONDS = 1


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    allow = "127.0.0.1/32,acme=127.0.0.2/32"
    with rig(tmp_path_factory.mktemp("inside"), LANGLAUF_WEBHOOK_ALLOW=allow, LANGLAUF_WEBHOOK_SCHEDULE="0.05") as made:
        yield made


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A try has little time."""
    environment = {"LANGLAUF_WEBHOOK_ALLOW": "127.0.0.1/32", "LANGLAUF_WEBHOOK_SECONDS": str(_SHORT_SECONDS)}
    with rig(tmp_path_factory.mktemp("short"), **environment) as made:
        yield made


def _add(sending: Rig, org: str, url: str) -> Any:
    return sending.live.http.post("/analyze/webhooks", json={"url": url}, headers={"X-Org-Id": org})


def test_failures_of_private_receivers_look_the_same(sending: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is there and whatever it says: the org sees one word, the operator's log sees what happened."""
    with receiving() as receiver, closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        receiver.manners = {
            "/broken": answer(500, _SECRET_ANSWER),
            "/gone": answer(410, _SECRET_ANSWER),
            "/busy": answer(503, _SECRET_ANSWER, Retry_After="3600"),
            "/moved": answer(302, Location="/elsewhere"),
            "/garbage": cut_off(b"SSH-2.0-hello\r\n\r\n"),
        }
        urls = [*map(receiver.url, receiver.manners), f"http://127.0.0.1:{closed.getsockname()[1]}/"]
        urls += [receiver.url("/broken").replace("http:", "https:")]
        sending.endpoints(*urls, org="scanner")
        sending.run_job("scanner")
        messages = sending.settled("scanner", number=len(urls))
    attempts = [attempt for message in messages for attempt in sending.attempts(message)]
    assert {(one.delivery_status, one.attempt_count, one.last_error) for one in messages} == {
        ("failed", 2, "not taken")
    }
    assert {(one.status_code, one.reply, one.error, one.seconds) for one in attempts} == {
        (None, None, "not taken", 0.0)
    }
    assert sending.disabled("scanner") == []
    logged = [vars(one)["fields"]["reason"] for one in caplog.records if one.getMessage() == LogEvent.DELIVERY_GAVE_UP]
    assert any(f"answered 500: {_SECRET_ANSWER}" in reason for reason in logged)
    assert any("Connection refused" in reason for reason in logged)


def test_a_delivery_to_a_private_receiver_shows_no_response(sending: Rig) -> None:
    with receiving() as receiver:
        receiver.manners["/hook"] = answer(200, _SECRET_ANSWER)
        sending.endpoint(receiver.url(), org="reader")
        sending.run_job("reader")
        [message] = sending.settled("reader")
    [attempt] = sending.attempts(message)
    assert (message.delivery_status, attempt.status_code, attempt.reply) == ("sent", None, None)


def _try(short: Rig, url: str) -> Any:
    made = _add(short, "tester", url).json()["webhook"]
    path = f"/analyze/webhooks/{made['endpoint_id']}/test"
    return short.live.http.post(path, json={}, headers={"X-Org-Id": "tester"}).json()


def test_a_test_of_a_private_receiver_shows_no_details(short: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "langlauf")
    with receiving() as receiver:
        receiver.manners["/hook"] = answer(418, _SECRET_ANSWER)
        tried = _try(short, receiver.url())
    assert {name: tried[name] for name in ("taken", "seconds", "status_code", "error", "reply")} == {
        "taken": False,
        "seconds": 0.0,
        "status_code": None,
        "error": "not taken",
        "reply": None,
    }
    [logged] = [vars(one)["fields"] for one in caplog.records if one.getMessage() == LogEvent.WEBHOOK_TESTED]
    assert "answered 418" in logged["reason"]


def test_a_failed_test_of_a_private_receiver_takes_the_full_timeout(short: Rig) -> None:
    """A closed port, which refuses at once, takes as long as one that never answers."""
    with closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        began = monotonic()
        tried = _try(short, f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert tried["error"] == "not taken"
    assert monotonic() - began >= _SHORT_SECONDS


def test_a_range_of_one_org_is_closed_to_the_others(sending: Rig) -> None:
    """Refused where it is given, and also where the range was the org's own when it was given."""
    made = {org: _add(sending, org, "http://127.0.0.2:81/hook").status_code for org in ("acme", "other")}
    assert made == {"acme": 201, "other": 400}
    options = {"async_mode": {"requested": True, "notify": {"webhook": "http://127.0.0.2:81/hook"}}}
    body = {"analysis": "echo", "input": {"query": "x"}, "options": options}
    refused = sending.live.http.post("/analyze", json=body, headers={"X-Org-Id": "other"})
    assert (refused.status_code, refused.json()["field"]) == (400, "options.async_mode.notify.webhook")
    with socket.create_server(("127.0.0.2", 0)) as listener:
        url = f"http://127.0.0.2:{listener.getsockname()[1]}/hook"
        sending.endpoint(url, org="former")  # in the store already, as after a change of the settings
        sending.run_job("former")
        [message] = sending.settled("former")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "LANGLAUF_WEBHOOK_ALLOW" in (message.last_error or "")


def test_a_private_range_of_the_org_is_called(sending: Rig) -> None:
    with receiving("127.0.0.2") as receiver:
        sending.endpoint(receiver.url().replace("127.0.0.1", "127.0.0.2"), org="acme")
        sending.run_job("acme")
        receiver.wait_for(1)
