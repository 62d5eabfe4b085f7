"""`options.async_mode.notify`: whom to tell of a job's end, checked before anything is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import GATES, Live, live

SECRET = "whsec_" + "A" * 32
HOOK = "https://hooks.example/jobs"
FIELD = "options.async_mode.notify"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that has a secret, and sends nothing by itself."""
    folder = tmp_path_factory.mktemp("signing")
    with live(folder, LANGLAUF_WEBHOOK_SECRET=SECRET, LANGLAUF_DELIVERIES="0") as running:
        yield running


def _ask(server: Live, notify: Any, org: str, **values: Any) -> Any:
    body = {"analysis": "echo", "input": {"query": "Bern"}, **values}
    body["options"] = {"async_mode": {"requested": True, "notify": notify}}
    return server.http.post("/analyze", json=body, headers={"X-Org-Id": org})


def _messages(server: Live, job_id: str, org: str, channel: str) -> list[dict[str, Any]]:
    address = f"/analyze/jobs/{job_id}/notifications"
    found: list[dict[str, Any]] = server.http.get(
        address, params={"channel": channel}, headers={"X-Org-Id": org}
    ).json()["notifications"]
    return found


BAD: list[tuple[Any, str]] = [
    ({"webhook": "http://hooks.example/x"}, "webhook"),
    ({"webhook": "ftp://hooks.example/x"}, "webhook"),
    ({"webhook": "https://127.0.0.1/x"}, "webhook"),
    ({"webhook": "https://[::1]/x"}, "webhook"),
    ({"webhook": "https://192.168.1.1/x"}, "webhook"),
    ({"webhook": "https://169.254.169.254/latest"}, "webhook"),
    ({"webhook": "http://10.8.0.1/"}, "webhook"),
    ({"webhook": "https://user:password@hooks.example/x"}, "webhook"),
    ({"webhook": "https://hooks.example/x#part"}, "webhook"),
    ({"webhook": "https://2130706433/"}, "webhook"),
    ({"webhook": "hooks.example"}, "webhook"),
    ({"webhook": ""}, "webhook"),
    ({"webhook": "https://hooks.example/\r\nX: y"}, "webhook"),
    ({"webhook": 7}, "webhook"),
    ({"webhook": "https://hooks.example/" + "x" * 2_100}, "webhook"),
    ({"email": "nobody"}, "email"),
    ({"email": ""}, "email"),
    ({"email": "a@b.example,c@d.example"}, "email"),
    ({"email": "a@b.example\r\nBcc: c@d.example"}, "email"),
    ({"email": "a@b.example\n"}, "email"),
    ({"email": "Anna <a@b.example>"}, "email"),
    ({"email": '"a b"@b.example'}, "email"),
    ({"email": "a..b@c.example"}, "email"),
    ({"email": "a@localhost"}, "email"),
    ({"email": "a@[127.0.0.1]"}, "email"),
    ({"email": "ä@b.example"}, "email"),
    ({"email": "a" * 65 + "@b.example"}, "email"),
    ({"email": "a@" + "b." * 130 + "example"}, "email"),
    ({"email": ["a@b.example"]}, "email"),
    ({"pager": "7"}, "pager"),
    ({"webhook": HOOK, "email": "no"}, "email"),
]


@pytest.mark.parametrize(("notify", "member"), BAD, ids=lambda one: str(one)[:40])
def test_what_cannot_be_told_is_refused_with_its_name(signing: Live, notify: Any, member: str) -> None:
    """400 with the field, and no job; what was given is not said back."""
    org = new_id()
    refused = _ask(signing, notify, org)
    problem = assert_problem(refused, 400, "bad_request")
    assert problem["field"] == f"{FIELD}.{member}"
    assert "password" not in problem["message"] or "must not have" in problem["message"]
    assert signing.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"] == []


@pytest.mark.parametrize("notify", [7, "https://hooks.example/", [HOOK]], ids=repr)
def test_a_wish_is_an_object(signing: Live, notify: Any) -> None:
    """400 naming the member."""
    assert assert_problem(_ask(signing, notify, new_id()), 400, "bad_request")["field"] == FIELD


@pytest.mark.parametrize("notify", [None, {}, {"webhook": None, "email": None}], ids=repr)
def test_no_wish_is_none(signing: Live, notify: Any) -> None:
    """Nothing but the message in the application."""
    org = new_id()
    job = signing.wait(_ask(signing, notify, org).json()["job"]["job_id"], org)
    address = f"/analyze/jobs/{job['job_id']}/notifications"
    told = signing.http.get(address, headers={"X-Org-Id": org}).json()["notifications"]
    assert [one["channel"] for one in told] == ["in_app"]


@pytest.mark.parametrize("url", [HOOK, "https://Hooks.EXAMPLE:443/jobs"], ids=repr)
def test_a_wish_is_kept_and_leaves_messages_at_the_end(signing: Live, url: str) -> None:
    """One for each channel, waiting, with the fields of the contract and no more: where they go is not among them."""
    org = new_id()
    made = _ask(signing, {"webhook": url, "email": "anna.b+c@mail.example"}, org)
    assert made.status_code == 202, made.text
    job_id = made.json()["job"]["job_id"]
    signing.wait(job_id, org)
    [called], [written] = (_messages(signing, job_id, org, channel) for channel in ("webhook", "email"))
    for one, end in ((called, ":job"), (written, "")):
        assert (one["delivery_status"], one["attempt_count"], one["last_error"]) == ("pending", 0, None)
        assert one["dedupe_key"] == f"{job_id}:{one['channel']}:async.job.completed{end}"
        assert one["payload_json"]["status"] == "completed"
        assert set(one) == {
            "notification_id", "job_id", "org_id", "channel", "template_key", "delivery_status", "attempt_count",
            "last_error", "dedupe_key", "scheduled_at", "sent_at", "created_at", "payload_json",
        }  # fmt: skip
        assert "mail.example" not in str(one)


def test_a_job_that_is_done_again_tells_the_same_people(signing: Live) -> None:
    """A retry is the same wish: whoever waited for the first end waits for the second."""
    org, gate = new_id(), new_id()
    wish = {"webhook": HOOK, "email": "a@b.example"}
    made = _ask(signing, wish, org, analysis="gated", input={"gate": gate})
    first = made.json()["job"]["job_id"]
    GATES.wait_until_reached(gate)
    signing.http.post(f"/analyze/jobs/{first}/cancel", json={}, headers={"X-Org-Id": org})
    signing.wait(first, org)
    GATES.open(gate)
    again = signing.http.post(f"/analyze/jobs/{first}/retry", json={}, headers={"X-Org-Id": org})
    second = signing.wait(again.json()["job"]["job_id"], org)
    assert second["status"] == "completed"
    assert len(_messages(signing, second["job_id"], org, "webhook")) == 1
    assert len(_messages(signing, second["job_id"], org, "email")) == 1


def test_who_is_told_is_not_part_of_what_is_asked(signing: Live) -> None:
    """The same key and input with another wish is the same job, and a duplicate is one whoever wants to be told."""
    org, gate = new_id(), new_id()
    headers = {"X-Org-Id": org, "Idempotency-Key": "k"}

    def ask(email: str, **more: str) -> Any:
        mode = {"requested": True, "notify": {"email": email}}
        body = {"analysis": "gated", "input": {"gate": gate}, "options": {"async_mode": mode}}
        return signing.http.post("/analyze", json=body, headers={**headers, **more})

    first, second = ask("a@b.example"), ask("c@d.example")
    assert second.headers["idempotent-replayed"] == "true"
    assert first.json()["job"]["job_id"] == second.json()["job"]["job_id"]
    assert_problem(ask("c@d.example", **{"Idempotency-Key": "other"}), 409, "duplicate_job")
    GATES.open(gate)


def test_a_webhook_without_any_secret_is_refused_and_told_what_to_set(server: Live) -> None:
    """400 that names the setting; an e-mail needs no secret."""
    org = new_id()
    problem = assert_problem(_ask(server, {"webhook": HOOK}, org), 400, "bad_request")
    assert problem["field"] == f"{FIELD}.webhook"
    assert "LANGLAUF_WEBHOOK_SECRET" in problem["message"]
    assert _ask(server, {"email": "a@b.example"}, org).status_code == 202


def test_what_the_operator_allows_may_be_called_but_not_this_server_itself(tmp_path: Path) -> None:
    """A private range by plain http at any port; the address of this server is refused whatever is allowed."""
    settings = {"LANGLAUF_WEBHOOK_ALLOW": "10.9.0.0/16", "LANGLAUF_PUBLIC_URL": "https://jobs.example"}
    with live(tmp_path, LANGLAUF_WEBHOOK_SECRET=SECRET, LANGLAUF_DELIVERIES="0", **settings) as inner:
        assert _ask(inner, {"webhook": "http://10.9.1.2:8099/in"}, "a").status_code == 202
        for refused in ("http://10.8.1.2:8099/in", "https://jobs.example/analyze"):
            answered = _ask(inner, {"webhook": refused}, "a")
            assert (answered.status_code, answered.json()["field"]) == (400, f"{FIELD}.webhook")


def _notify(server: Live, job_id: str, body: Any, org: str) -> Any:
    return server.http.post(f"/analyze/jobs/{job_id}/notify", json=body, headers={"X-Org-Id": org})


@pytest.fixture
def running_job(signing: Live) -> Iterator[tuple[str, str, str]]:
    """A job that runs until its gate is open: its org, its id and the gate."""
    org, gate = new_id(), new_id()
    job_id = _ask(signing, None, org, analysis="gated", input={"gate": gate}).json()["job"]["job_id"]
    GATES.wait_until_reached(gate)
    yield org, job_id, gate
    GATES.open(gate)


def test_a_running_job_gets_a_receiver(signing: Live, running_job: tuple[str, str, str]) -> None:
    """200 with the job, however often; the last address gets the mail, and after the end there is none to get."""
    org, job_id, gate = running_job
    for address in ("first@mail.example", "anna@mail.example", "anna@mail.example"):
        done = _notify(signing, job_id, {"email": address, "language": "de"}, org)
        assert (done.status_code, done.json()["job"]["status"]) == (200, "running")
        assert "mail.example" not in done.text
    GATES.open(gate)
    signing.wait(job_id, org)
    [message] = _messages(signing, job_id, org, "email")
    assert message["payload_json"]["language"] == "de"
    late = assert_problem(_notify(signing, job_id, {"email": "late@mail.example"}, org), 409, "has_ended")
    assert late["current_state"] == "completed"
    assert len(_messages(signing, job_id, org, "email")) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"email": "nobody"}, "email"),
        ({"email": "a@b.example\r\nBcc: c@d.example"}, "email"),
        ({"email": None}, "email"),
        ({"email": "a@b.example", "language": "fr"}, "language"),
        ({"webhook": HOOK}, "webhook"),
        ({}, "email"),
    ],
    ids=repr,
)
def test_a_receiver_that_can_get_no_mail_is_refused(
    signing: Live, running_job: tuple[str, str, str], body: Any, field: str
) -> None:
    """400 with the field, and the job is told to write to no one."""
    org, job_id, gate = running_job
    assert assert_problem(_notify(signing, job_id, body, org), 400, "bad_request")["field"] == field
    GATES.open(gate)
    signing.wait(job_id, org)
    assert _messages(signing, job_id, org, "email") == []


def test_another_org_has_no_such_job(signing: Live, running_job: tuple[str, str, str]) -> None:
    """404, whether the address is good or not."""
    _, job_id, _ = running_job
    for address in ("a@b.example", "nobody"):
        assert_problem(_notify(signing, job_id, {"email": address}, new_id()), 404, "not_found")
