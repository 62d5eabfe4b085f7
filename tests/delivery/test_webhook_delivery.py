"""A final arrives once, signed, as a CloudEvent; what receivers verify with is not ours."""

import json
from pathlib import Path

from standardwebhooks import WebhookVerificationError

from langlauf.domain.delivery import SUBJECTS
from langlauf.domain.webhook import secret_text
from tests.delivery.rig import rig
from tests.support.receiver import Arrived, answer, in_turn, receiving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_final_arrives_signed(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        endpoint = sending.endpoint(receiver.url())
        job = sending.run_job()
        [arrived] = receiver.wait_for(1)
        [message] = sending.settled()
        event = arrived.verify(sending.secret(endpoint))
        [attempt] = sending.attempts(message)
    assert isinstance(event, dict)
    assert arrived.message_id == message.notification_id
    assert arrived.headers["content-type"] == "application/cloudevents+json"
    assert arrived.headers["user-agent"].startswith("langlauf")
    assert len(arrived.body) < 20_000
    assert event["specversion"] == "1.0"
    assert event["type"] == "api.analyze.job.completed"
    assert event["source"] == "/analyze"
    assert event["subject"] == job["job_id"]
    news = {"job_id": job["job_id"], "org_id": "default-org", "status": "completed", "event_seq": job["event_seq"]}
    assert event["data"].items() >= news.items()
    assert event["data"]["result_id"] == job["result_id"]
    assert event["id"] == job["events"][-1]["event_id"]
    assert (message.delivery_status, message.attempt_count) == ("sent", 1)
    assert attempt.status == "sent"


def test_everything_an_endpoint_subscribes_to_arrives(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        sending.endpoint(receiver.url(), subjects=SUBJECTS)
        sending.run_job()
        arrived = receiver.wait_for(3)
    kinds = {json.loads(one.body)["type"].rpartition(".")[2] for one in arrived}
    assert kinds == {"queued", "started", "completed"}
    assert len({one.message_id for one in arrived}) == 3


def test_the_trace_of_the_job_is_passed_on(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        sending.endpoint(receiver.url())
        body = {"analysis": "echo", "input": {"query": "x"}}
        sending.live.http.post("/analyze", json=body, headers={"Prefer": "respond-async", "traceparent": PARENT})
        [arrived] = receiver.wait_for(1)
    assert arrived.headers["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert json.loads(arrived.body)["data"]["trace_id"] == PARENT.split("-")[1]


def _good(arrived: Arrived, secret: str) -> bool:
    try:
        arrived.verify(secret)
    except WebhookVerificationError:
        return False
    return True


def test_both_secrets_verify_while_receivers_change_over(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        endpoint = sending.endpoint(receiver.url())
        sending.change(endpoint, rotate_seconds=3600.0)
        sending.run_job()
        receiver.wait_for(1)
        sending.change(endpoint, rotate_seconds=0.0)
        sending.run_job()
        overlap, after = receiver.wait_for(2)
        one, two, three = (sending.secret(endpoint, version) for version in (1, 2, 3))
    assert [_good(overlap, secret) for secret in (one, two, three)] == [True, True, False]
    assert [_good(after, secret) for secret in (one, two, three)] == [False, False, True]


def test_two_rotations_keep_the_first_secret_valid(tmp_path: Path) -> None:
    """A second click within the overlap: a receiver that still has the first secret goes on."""
    with rig(tmp_path) as sending, receiving() as receiver:
        endpoint = sending.endpoint(receiver.url())
        for _ in range(2):
            sending.change(endpoint, rotate_seconds=3600.0)
        sending.run_job()
        [arrived] = receiver.wait_for(1)
        secrets = [sending.secret(endpoint, version) for version in (1, 2, 3, 4)]
    assert [_good(arrived, secret) for secret in secrets] == [True, True, True, False]


def test_a_signature_is_good_for_one_message_alone(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        secret = sending.secret(sending.endpoint(receiver.url()))
        sending.run_job()
        [arrived] = receiver.wait_for(1)
    assert _good(arrived, secret)
    late = str(int(arrived.headers["webhook-timestamp"]) - 360)
    assert not _good(arrived._replace(body=arrived.body.replace(b"completed", b"canceled!")), secret)
    assert not _good(arrived._replace(headers={**arrived.headers, "webhook-id": arrived.message_id + "x"}), secret)
    assert not _good(arrived._replace(headers={**arrived.headers, "webhook-timestamp": late}), secret)


def test_a_repetition_is_the_same_message(tmp_path: Path) -> None:
    with rig(tmp_path) as sending, receiving() as receiver:
        secret = sending.secret(sending.endpoint(receiver.url()))
        receiver.manners["/hook"] = in_turn(answer(500), answer(302, Location=receiver.url("/inner")), answer(204))
        sending.run_job()
        arrived = receiver.wait_for(3)
        [message] = sending.settled()
        assert receiver.of("/inner") == []
    assert {one.message_id for one in arrived} == {message.notification_id}
    assert len({one.body for one in arrived}) == 1
    assert all(_good(one, secret) for one in arrived)
    assert message.attempt_count == 3
    assert message.last_error is None


def test_the_address_of_a_job_is_called_with_the_secret_of_its_org(tmp_path: Path) -> None:
    """The org's admins read it; neither another org's nor the operator's own is good for it."""
    new, former = secret_text(b"n" * 32), secret_text(b"f" * 32)
    with rig(tmp_path, LANGLAUF_WEBHOOK_SECRET=f"{new},{former}") as sending, receiving() as receiver:
        options = {"async_mode": {"requested": True, "notify": {"webhook": receiver.url("/own?key=value")}}}
        body = {"analysis": "echo", "input": {"query": "x"}, "options": options}
        job = sending.live.http.post("/analyze", json=body, headers={"X-Org-Id": "acme"}).json()["job"]
        [arrived] = receiver.wait_for(1, "/own?key=value")
        [message] = sending.settled("acme")
        shown = [
            sending.live.http.get("/analyze/webhook-secret", headers={"X-Org-Id": org}).json()
            for org in ("acme", "other")
        ]
    own, others = [(one["secret"], one["former_secret"]) for one in shown]
    assert message.job_id == job["job_id"] == json.loads(arrived.body)["subject"]
    assert [_good(arrived, secret) for secret in own] == [True, True]
    assert [_good(arrived, secret) for secret in (*others, new, former)] == [False] * 4
