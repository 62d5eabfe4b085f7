"""An org's endpoints over HTTP: made, listed, changed, tried; and no secret twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from langlauf.auth.rates import REPLAYS, TESTS
from langlauf.clock import new_id
from langlauf.delivery import webhook
from langlauf.domain.delivery import MOST_ENDPOINTS
from tests.http.test_errors import assert_problem
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.receiver import Receiver, answer, receiving

URL = "https://hooks.example/jobs"
FIELDS = {
    "endpoint_id", "org_id", "url", "name", "events", "status", "created_at", "secret_version", "former_secret_until",
    "disabled_at", "disabled_reason", "failures", "failing_since", "paused_until",
}  # fmt: skip


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """Somebody on this machine who takes webhooks."""
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that may call this machine, and sends."""
    folder = tmp_path_factory.mktemp("calling")
    with live(folder, LANGLAUF_WEBHOOK_ALLOW="127.0.0.0/8", LANGLAUF_WEBHOOK_SCHEDULE="0.05") as running:
        yield running


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers on this machine stand for public ones, of which an org is told what they answer."""
    monkeypatch.setattr(webhook, "is_allowed_private", lambda *_: False)


class Org:
    """An org's own view of a server."""

    def __init__(self, server: Live) -> None:
        self.org = new_id()
        self._server = server
        self._headers = {"X-Org-Id": self.org}

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx2.Response:
        return self._server.http.request(
            method, f"/analyze/{path}", json=body, params=params or None, headers=self._headers
        )

    def add(self, url: str = URL, **body: Any) -> dict[str, Any]:
        made = self.ask("POST", "webhooks", {"url": url, **body})
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found

    def run(self, query: str = "Bern") -> str:
        job = self._server.submit("echo", org=self.org, query=query)
        self._server.wait(job["job_id"], self.org)
        found: str = job["job_id"]
        return found

    def deliveries(self, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", "deliveries", **params).json()["deliveries"]
        return found


@pytest.fixture
def org(server: Live) -> Org:
    """A new org on the server that sends nothing."""
    return Org(server)


@pytest.fixture
def loud(calling: Live) -> Org:
    """A new org on the server that sends."""
    return Org(calling)


def test_an_endpoint_is_made_with_a_secret_that_is_never_shown_again(org: Org) -> None:
    """201 with Location and the secret; no list, no look and no change has it."""
    answered = org.ask("POST", "webhooks", {"url": URL, "name": "warehouse"})
    made = answered.json()
    assert answered.status_code == 201
    assert set(made) == {"ok", "request_id", "webhook", "secret"}
    assert set(made["webhook"]) == FIELDS
    assert made["secret"].startswith("whsec_")
    assert made["webhook"]["events"] == ["completed", "failed", "canceled"]
    assert (made["webhook"]["status"], made["webhook"]["name"]) == ("working", "warehouse")
    assert answered.headers["location"] == f"/analyze/webhooks/{made['webhook']['endpoint_id']}"
    one = f"webhooks/{made['webhook']['endpoint_id']}"
    for again in (org.ask("GET", "webhooks"), org.ask("GET", one), org.ask("PATCH", one, {"name": "other"})):
        assert again.status_code == 200
        assert made["secret"] not in again.text
        assert "secret" not in again.json()
        assert again.headers["cache-control"] == "no-store"


BAD: list[tuple[Any, str]] = [
    ({}, "url"),
    ({"url": "http://hooks.example/"}, "url"),
    ({"url": "https://127.0.0.1/"}, "url"),
    ({"url": "https://a:b@hooks.example/"}, "url"),
    ({"url": 7}, "url"),
    ({"url": URL, "name": "x" * 101}, "name"),
    ({"url": URL, "name": "a\u202eb"}, "name"),
    ({"url": URL, "events": []}, "events"),
    ({"url": URL, "events": ["started", "nothing"]}, "events[1]"),
    ({"url": URL, "secret": "mine"}, "secret"),
    ({"url": URL, "org_id": "other"}, "org_id"),
]


@pytest.mark.parametrize(("body", "field"), BAD, ids=lambda one: str(one)[:40])
def test_what_cannot_be_an_endpoint_is_refused_with_its_field(org: Org, body: Any, field: str) -> None:
    """400, and nothing is kept."""
    assert assert_problem(org.ask("POST", "webhooks", body), 400, "bad_request")["field"] == field
    assert org.ask("GET", "webhooks").json()["webhooks"] == []


def test_an_address_is_an_endpoint_once_however_it_is_spelled(org: Org) -> None:
    """409 with the field; an org may have only so many."""
    org.add()
    again = assert_problem(
        org.ask("POST", "webhooks", {"url": "https://HOOKS.example:443/jobs"}), 409, "endpoint_exists"
    )
    assert again["field"] == "url"
    for number in range(MOST_ENDPOINTS - 1):
        org.add(f"{URL}/{number}")
    full = assert_problem(org.ask("POST", "webhooks", {"url": f"{URL}/more"}), 400, "bad_request")
    assert str(MOST_ENDPOINTS) in full["message"]


def test_an_endpoint_changes_and_is_switched_off_and_on(org: Org) -> None:
    """What is not named stays; off gives up what waits, on starts afresh; an empty change changes nothing."""
    endpoint = org.add(events=["completed"])["webhook"]
    one = f"webhooks/{endpoint['endpoint_id']}"
    job_id = org.run()
    changed = org.ask("PATCH", one, {"events": ["failed", "failed", "queued"]}).json()["webhook"]
    assert (changed["events"], changed["name"], changed["url"]) == (["failed", "queued"], "", URL)
    off = org.ask("PATCH", one, {"enabled": False}).json()["webhook"]
    assert (off["status"], off["disabled_reason"]) == ("disabled", "switched off")
    [told] = org.deliveries(job=job_id, status="failed")
    assert "disabled" in told["last_error"]
    assert_problem(org.ask("POST", f"deliveries/{told['notification_id']}/replay"), 409, "endpoint_disabled")
    assert_problem(org.ask("POST", f"{one}/replay", {}), 409, "endpoint_disabled")
    on = org.ask("PATCH", one, {"enabled": True}).json()["webhook"]
    assert (on["status"], on["disabled_at"], on["disabled_reason"]) == ("working", None, None)
    assert org.ask("PATCH", one).json()["webhook"] == on
    assert_problem(org.ask("PATCH", one, {"url": "https://other.example/"}), 400, "bad_request")
    again = org.ask("POST", f"{one}/replay", {"since": "2020-01-01T00:00:00Z"})
    assert (again.status_code, again.json()["replayed"], again.json()["more"]) == (202, 1, False)
    assert org.ask("POST", f"{one}/replay", {"since": "2999-01-01T00:00:00+01:00"}).json()["replayed"] == 0
    for since in ("yesterday", "2026-01-01T00:00:00", 7):
        assert (
            assert_problem(org.ask("POST", f"{one}/replay", {"since": since}), 400, "bad_request")["field"] == "since"
        )


def test_an_endpoint_that_is_removed_is_gone(org: Org) -> None:
    """404 ever after; what waited for it is told as failed, and cannot be replayed."""
    endpoint = org.add()["webhook"]
    one = f"webhooks/{endpoint['endpoint_id']}"
    org.run()
    assert org.ask("DELETE", one).json()["endpoint_id"] == endpoint["endpoint_id"]
    for method, path in (
        ("GET", one),
        ("DELETE", one),
        ("PATCH", one),
        ("POST", f"{one}/rotate"),
        ("POST", f"{one}/test"),
        ("POST", f"{one}/replay"),
    ):
        assert_problem(org.ask(method, path), 404, "not_found")
    [told] = org.deliveries()
    assert (told["delivery_status"], told["target"]) == ("failed", None)
    assert_problem(org.ask("POST", f"deliveries/{told['notification_id']}/replay"), 409, "endpoint_disabled")


def test_after_a_rotation_both_secrets_sign_until_the_overlap_is_over(loud: Org, receiver: Receiver) -> None:
    """A message carries a signature for each; with no overlap, the one before is worth nothing at once."""
    made = loud.add(receiver.url("/rotated"))
    one = f"webhooks/{made['webhook']['endpoint_id']}"
    turned = loud.ask("POST", f"{one}/rotate").json()
    assert turned["webhook"]["secret_version"] == 2
    assert turned["webhook"]["former_secret_until"] is not None
    assert turned["secret"] != made["secret"]
    loud.ask("POST", f"{one}/test")
    [sent] = receiver.take(1, "/rotated")
    for secret in (made["secret"], turned["secret"]):
        Webhook(secret).verify(sent.body, sent.headers)
    last = loud.ask("POST", f"{one}/rotate", {"overlap": 0}).json()
    loud.ask("POST", f"{one}/test")
    [sent] = receiver.take(1, "/rotated")
    Webhook(last["secret"]).verify(sent.body, sent.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(turned["secret"]).verify(sent.body, sent.headers)
    for overlap in ("31d", -1, "soon", 31 * 86_400):
        problem = assert_problem(loud.ask("POST", f"{one}/rotate", {"overlap": overlap}), 400, "bad_request")
        assert problem["field"] == "overlap"


@pytest.mark.usefixtures("outside")
def test_a_test_event_is_sent_at_once_and_what_came_back_is_told(loud: Org, receiver: Receiver) -> None:
    """Taken or not, with the status and the beginning of the answer; it is in no log, and changes no health."""
    made = loud.add(receiver.url("/tried"))
    one = f"webhooks/{made['webhook']['endpoint_id']}"
    taken = loud.ask("POST", f"{one}/test").json()
    assert (taken["taken"], taken["status_code"], taken["error"]) == (True, 200, None)
    [sent] = receiver.take(1, "/tried")
    event = Webhook(made["secret"]).verify(sent.body, sent.headers)
    assert event["type"] == "api.analyze.webhook.test"
    assert event["data"]["endpoint_id"] == made["webhook"]["endpoint_id"]
    receiver.manners["/tried"] = answer(500, "no token=abcdef123456")
    refused = loud.ask("POST", f"{one}/test").json()
    assert (refused["taken"], refused["status_code"]) == (False, 500)
    assert refused["reply"] == "no token=[redacted]"
    assert loud.deliveries() == []
    assert loud.ask("GET", one).json()["webhook"]["status"] == "working"


def test_tests_and_replays_are_rate_limited(loud: Org, receiver: Receiver) -> None:
    """429 with when to come back; another org is not held up."""
    one = f"webhooks/{loud.add(receiver.url('/often'))['webhook']['endpoint_id']}"
    for path, rate, done in (("test", TESTS, 200), ("replay", REPLAYS, 202)):
        answers = [loud.ask("POST", f"{one}/{path}") for _ in range(rate.quota)]
        assert {answer.status_code for answer in answers} == {done}
        # The quota comes back evenly: a slow machine is granted one more now and then, but not as many again.
        more = (loud.ask("POST", f"{one}/{path}") for _ in range(rate.quota))
        limited = next(answer for answer in more if answer.status_code != done)
        assert_problem(limited, 429, "rate_limited")
        assert limited.headers["retry-after"]


@pytest.mark.usefixtures("outside")
def test_the_log_of_deliveries_has_every_attempt(loud: Org, receiver: Receiver) -> None:
    """A message that is refused twice is failed, with both attempts; replayed, it arrives under its old id."""
    made = loud.add(receiver.url("/log"), events=["completed"])
    receiver.manners["/log"] = answer(503, "later")
    job_id = loud.run()
    [told] = eventually(lambda: loud.deliveries(job=job_id, status="failed"))
    refused = receiver.take(2, "/log")
    assert {one.headers["webhook-id"] for one in refused} == {told["notification_id"]}
    assert (told["target"], told["endpoint_id"]) == (made["webhook"]["url"], made["webhook"]["endpoint_id"])
    receiver.manners["/log"] = answer(204)
    path = f"deliveries/{told['notification_id']}"
    again = loud.ask("POST", f"{path}/replay")
    assert (again.status_code, again.json()["delivery"]["notification_id"]) == (202, told["notification_id"])
    eventually(lambda: loud.deliveries(job=job_id, status="sent"))
    [arrived] = receiver.take(1, "/log")
    assert arrived.headers["webhook-id"] == told["notification_id"]
    followed = loud.ask("GET", path).json()
    assert followed["delivery"]["delivery_status"] == "sent"
    assert [(one["attempt"], one["status_code"], one["status"]) for one in followed["attempts"]] == [
        (3, 204, "sent"),
        (2, 503, "failed"),
        (1, 503, "pending"),
    ]
    assert loud.ask("POST", f"{path}/replay").status_code == 202  # one that arrived may be sent again, too
    receiver.take(1, "/log")


def test_deliveries_are_paged_and_filtered(org: Org) -> None:
    """Newest first, each once, by endpoint, job and state; a cursor belongs to its filters."""
    first, second = org.add(f"{URL}/1")["webhook"], org.add(f"{URL}/2")["webhook"]
    jobs = [org.run(str(number)) for number in range(3)]
    seen: list[str] = []
    page = org.ask("GET", "deliveries", limit=4)
    assert 'rel="next"' in page.headers["link"]
    seen += [one["notification_id"] for one in page.json()["deliveries"]]
    rest = org.ask("GET", "deliveries", limit=4, cursor=page.json()["next_cursor"])
    seen += [one["notification_id"] for one in rest.json()["deliveries"]]
    assert (len(seen), len(set(seen)), rest.json()["next_cursor"]) == (6, 6, None)
    assert "link" not in rest.headers
    of_first = org.deliveries(endpoint=first["endpoint_id"])
    assert [one["job_id"] for one in of_first] == jobs[::-1]
    assert {one["endpoint_id"] for one in org.deliveries(job=jobs[0])} == {first["endpoint_id"], second["endpoint_id"]}
    assert len(org.deliveries(status="pending")) == 6
    assert org.deliveries(status="sent") == []
    for bad, field in (
        ({"limit": 0}, "limit"),
        ({"status": "lost"}, "status"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": page.json()["next_cursor"], "status": "pending"}, "cursor"),
        ({"colour": "red"}, "colour"),
    ):
        assert assert_problem(org.ask("GET", "deliveries", **bad), 400, "bad_request")["field"] == field


def test_an_address_of_a_person_is_masked_in_the_log(server: Live, org: Org) -> None:
    """As much as is needed to recognise it, and no more."""
    body = {"query": "x", "options": {"async_mode": {"requested": True, "notify": {"email": "anna.b@mail.example"}}}}
    made = server.http.post("/analyze", json=body, headers={"X-Org-Id": org.org}).json()["job"]["job_id"]
    server.wait(made, org.org)
    [told] = org.deliveries(job=made)
    assert (told["channel"], told["target"]) == ("email", "a…@mail.example")
    assert "anna.b" not in org.ask("GET", f"deliveries/{told['notification_id']}").text


def test_an_endpoint_of_the_org_is_secret_enough_for_a_job_that_names_it(server: Live) -> None:
    """Without the operator's secret, an address that the org has an endpoint for may be named, and is told once."""
    org = Org(server)
    org.add()
    body = {"query": "x", "options": {"async_mode": {"requested": True, "notify": {"webhook": URL}}}}
    made = server.http.post("/analyze", json=body, headers={"X-Org-Id": org.org})
    assert made.status_code == 202
    job_id = made.json()["job"]["job_id"]
    server.wait(job_id, org.org)
    assert len(org.deliveries(job=job_id)) == 1


def test_no_secret_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is made and rotated shows in no line of the server."""
    with live(tmp_path, LANGLAUF_LOG_LEVEL="debug") as server:
        org = Org(server)
        made = org.add()
        turned = org.ask("POST", f"webhooks/{made['webhook']['endpoint_id']}/rotate").json()
    told = "".join(capfd.readouterr())
    assert made["secret"] not in told
    assert turned["secret"] not in told
