"""`/webhooks`, whom to tell on the start form, and whom a job told: pages that work without a script."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from langlauf.clock import new_id
from langlauf.delivery import webhook
from langlauf.domain.access import Scope
from tests.support.keys import bearer, make_key
from tests.support.live import Live, live
from tests.support.receiver import Receiver, answer, receiving
from tests.ui.html_page import HtmlPage, assert_page

URL = "https://hooks.example/jobs"
GERMAN = {"Accept-Language": "de"}


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that can call this machine and write mails, and has a secret."""
    settings = {
        "LANGLAUF_WEBHOOK_ALLOW": "127.0.0.0/8",
        "LANGLAUF_WEBHOOK_SECRET": "whsec_" + "A" * 32,
        "LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none",
        "LANGLAUF_MAIL_FROM": "jobs@example.org",
        "LANGLAUF_DELIVERIES": "0",
    }
    with live(tmp_path_factory.mktemp("webhooks"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """Somebody on this machine who takes webhooks."""
    with receiving() as found:
        yield found


@pytest.fixture
def org() -> str:
    """A new org."""
    return new_id()


def show(server: Live, org: str, address: str = "/webhooks", **headers: str) -> HtmlPage:
    """A page of the org."""
    return assert_page(server.http.get(address, headers={"X-Org-Id": org, **headers}))


def send(server: Live, org: str, address: str, status: int = 200, /, **fields: str) -> HtmlPage:
    """Sends a form, and gives the page that answers it, or the one that it leads to."""
    headers = {"X-Org-Id": org, "Origin": server.url}
    response = server.http.post(address, data=fields or {"csrf_token": ""}, headers=headers)
    assert response.status_code == status, response.text
    return show(server, org) if status == 303 else assert_page(response, status)


def add(server: Live, org: str, url: str = URL, **fields: str) -> tuple[str, str]:
    """The id and the secret of a new endpoint."""
    made = send(server, org, "/webhooks/add", url=url, **{"hears.completed": "on", **fields})
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", made.text)
    assert secret is not None
    return endpoints(server, org)[-1], secret[0]


def endpoints(server: Live, org: str) -> list[str]:
    """The ids of the endpoints, in the order of the page."""
    return [one["id"].removeprefix("e-") for one in show(server, org).all("h3")]


def test_an_endpoint_is_added_and_its_secret_is_on_that_page_alone(calling: Live, org: str) -> None:
    """Shown once with the endpoint; loading the page again does not show it, in either language."""
    assert "No endpoints yet" in show(calling, org).text
    endpoint, secret = add(calling, org, name="ware <b>house</b>")
    made = show(calling, org)
    assert "ware <b>house</b>" in made.text
    assert "Working" in made.text
    assert secret not in made.text
    assert "Funktioniert" in show(calling, org, **GERMAN).text
    assert endpoint in endpoints(calling, org)
    back = calling.http.get("/webhooks/add", headers={"X-Org-Id": org})
    assert (back.status_code, back.headers["location"]) == (303, "../webhooks")


@pytest.mark.parametrize(
    ("url", "english", "german"),
    [
        ("http://hooks.example/", "Only public", ""),
        ("nonsense", "Enter a web address", "Bitte eine Webadresse eingeben"),
        ("https://10.0.0.1/", "10.0.0.1 is an internal address", "ist eine interne Adresse"),
        ("https://a:b@hooks.example/", "must not contain a user name or password", "weder Benutzernamen noch Passwort"),
        ("", "Enter a web address", "Bitte eine Webadresse eingeben"),
    ],
)
def test_what_cannot_be_called_is_told_beside_the_entry(
    server: Live, calling: Live, org: str, url: str, english: str, german: str
) -> None:
    """400 with the form as it was filled in, in the reader's words."""
    used = calling if german else server
    if not german:  # a server that may call a range cannot know what a name stands for
        english = "must start with https://"
    made = send(used, org, "/webhooks/add", 400, url=url, name="mine", **{"hears.failed": "on"})
    assert english in made.text
    assert any(one.get("value") == "mine" for one in made.all("input"))
    if german:
        fields = {"url": url, "hears.failed": "on"}
        headers = {"X-Org-Id": org, "Origin": used.url, **GERMAN}
        assert german in assert_page(used.http.post("/webhooks/add", data=fields, headers=headers), 400).text
    assert endpoints(used, org) == []


def test_nothing_to_hear_of_and_an_address_that_is_there_are_refused(calling: Live, org: str) -> None:
    """400 and 409, each with what to do."""
    assert "Select at least one event" in send(calling, org, "/webhooks/add", 400, url=URL).text
    add(calling, org)
    again = send(calling, org, "/webhooks/add", 409, url=URL, **{"hears.failed": "on"})
    assert "already" in again.text
    long = send(calling, org, "/webhooks/add", 400, url=f"{URL}/2", name="x" * 101, **{"hears.failed": "on"})
    assert "at most 100 printable characters" in long.text


def test_an_endpoint_is_tried_from_the_page(
    calling: Live, org: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came back is told at once, and what was sent is signed with the secret of the page."""
    endpoint, secret = add(calling, org, receiver.url("/page"))
    assert "Test event delivered." in send(calling, org, f"/webhooks/{endpoint}/test").text
    receiver.take(1, "/page")
    monkeypatch.setattr(webhook, "is_allowed_private", lambda *_: False)  # as if the receiver were a public one
    assert "delivered: 200" in send(calling, org, f"/webhooks/{endpoint}/test").text
    [sent] = receiver.take(1, "/page")
    Webhook(secret).verify(sent.body, sent.headers)
    receiver.manners["/page"] = answer(500, "<script>alert(1)</script>")
    refused = send(calling, org, f"/webhooks/{endpoint}/test")
    assert "Test event not delivered" in refused.text
    assert "<script>alert(1)</script>" in refused.text


def test_an_endpoint_is_switched_rotated_and_removed(calling: Live, org: str) -> None:
    """Each by its own form; the page tells how it is now."""
    endpoint, secret = add(calling, org)
    assert "Disabled" in send(calling, org, f"/webhooks/{endpoint}/switch", 303, enabled="no").text
    assert "Working" in send(calling, org, f"/webhooks/{endpoint}/switch", 303, enabled="yes").text
    turned = send(calling, org, f"/webhooks/{endpoint}/rotate")
    assert "New secret created" in turned.text
    assert "whsec_" in turned.text
    assert secret not in turned.text
    assert "secret no. 2" in show(calling, org).text
    assert "No endpoints yet" in send(calling, org, f"/webhooks/{endpoint}/remove", 303).text
    for gone in ("switch", "rotate", "test", "remove", "replay"):
        send(calling, org, f"/webhooks/{endpoint}/{gone}", 404)


def test_deliveries_are_listed_and_replayed(calling: Live, org: str) -> None:
    """What failed can be sent again from its row or all at once; what waits cannot; another org sees none of it."""
    endpoint, _ = add(calling, org)
    job = calling.wait(calling.submit("echo", org=org, query="Bern")["job_id"], org)
    assert f"./jobs/{job['job_id']}" in show(calling, org).links()
    assert _replays(show(calling, org)) == []
    send(calling, org, f"/webhooks/{endpoint}/switch", 303, enabled="no")
    off = send(calling, org, f"/webhooks/{endpoint}/replay", 409)
    assert "switched off" in off.text
    send(calling, org, f"/webhooks/{endpoint}/switch", 303, enabled="yes")
    assert job["job_id"] in show(calling, org, "/webhooks?status=failed").text
    assert job["job_id"] not in show(calling, org, "/webhooks?status=sent").text
    [way] = _replays(show(calling, org))
    stranger = new_id()
    assert job["job_id"] not in show(calling, stranger).text
    send(calling, stranger, f"/webhooks/{endpoint}/replay", 404)
    send(calling, stranger, way, 404)
    assert "Sending again: 1" in send(calling, org, way).text
    assert _replays(show(calling, org)) == []
    assert "Sending again: 0" in send(calling, org, f"/webhooks/{endpoint}/replay").text


def _replays(made: HtmlPage) -> list[str]:
    """Where the buttons of single deliveries lead."""
    actions = (one.get("action", "") for one in made.all("form"))
    return [action.removeprefix(".") for action in actions if action.startswith("./deliveries/")]


def test_the_page_is_for_admins(tmp_path: Path) -> None:
    """Others get 403, and are not shown the way there; forms need the mark of the session."""
    store = tmp_path / "store.db"
    admin, reader = make_key(store, "acme", *(Scope.ADMIN, Scope.READ)), make_key(store, "acme", Scope.READ)
    with live(tmp_path) as server:
        assert "./webhooks" in assert_page(server.http.get("/", headers=bearer(admin.text))).links()
        assert_page(server.http.get("/webhooks", headers=bearer(admin.text)))
        assert "./webhooks" not in assert_page(server.http.get("/", headers=bearer(reader.text))).links()
        assert_page(server.http.get("/webhooks", headers=bearer(reader.text)), 403)
        refused = server.http.post("/webhooks/add", data={"url": URL}, headers=bearer(reader.text))
        assert refused.status_code == 403
        assert server.http.post("/webhooks/add", data={"url": URL}).status_code == 401


def test_a_form_of_another_site_adds_nothing(calling: Live, org: str) -> None:
    """Where nobody is asked for a key, the origin of the form decides."""
    headers = {"X-Org-Id": org, "Origin": "https://evil.example"}
    refused = calling.http.post("/webhooks/add", data={"url": URL, "hears.failed": "on"}, headers=headers)
    assert refused.status_code == 403
    assert endpoints(calling, org) == []


def test_the_start_form_offers_to_tell_somebody_where_that_can_work(server: Live, calling: Live, org: str) -> None:
    """An e-mail address where there is a mail server, a web address where there is a secret; else nothing."""
    assert "option.email" not in show(server, org, "/").text + str(show(server, org, "/").all("input"))
    names = {one.get("name") for one in show(calling, org, "/").all("input")}
    assert {"option.email", "option.webhook"} <= names


def test_whom_to_tell_is_kept_with_the_job_and_shown_on_its_page(calling: Live, org: str) -> None:
    """Masked: the server that is called, and as much of a mailbox as is needed to recognise it."""
    fields = {"analysis": "echo", "in.query": "Bern", "in.intelligence_mode": "basic"}
    fields |= {"option.email": "anna.b@mail.example", "option.webhook": "https://hooks.example/x?key=abc123"}
    headers = {"X-Org-Id": org, "Origin": calling.url, **GERMAN}
    started = calling.http.post("/", data=fields, headers=headers)
    assert started.status_code == 303, started.text
    job_id = started.headers["location"].rpartition("/")[2].partition("?")[0]
    calling.wait(job_id, org)
    made = show(calling, org, f"/jobs/{job_id}")
    for shown in ("a…@mail.example", "https://hooks.example", "next attempt"):
        assert shown in made.text
    for hidden in ("anna.b", "abc123"):
        assert hidden not in made.text
    told = calling.http.get(f"/analyze/jobs/{job_id}/notifications?channel=email", headers={"X-Org-Id": org}).json()
    assert told["notifications"][0]["payload_json"]["language"] == "de"


@pytest.mark.parametrize(
    ("lang", "words"), [("en", "Enter one e-mail address"), ("de", "Bitte eine E-Mail-Adresse eingeben")]
)
def test_an_address_that_is_none_is_told_beside_its_entry(calling: Live, org: str, lang: str, words: str) -> None:
    """The form again, with the part open, and no job."""
    fields = {"analysis": "echo", "in.query": "Bern", "option.email": "nobody"}
    headers = {"X-Org-Id": org, "Origin": calling.url, "Accept-Language": lang}
    made = assert_page(calling.http.post("/", data=fields, headers=headers), 400)
    assert words in made.text
    assert any(one.get("id") == "option.email" and one.get("aria-invalid") for one in made.all("input"))
    assert calling.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"] == []
