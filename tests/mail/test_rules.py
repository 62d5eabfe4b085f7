"""Who is written to, and how often: rates, domains, lists, and receivers who want no more."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from langlauf.cli.main import main
from tests.delivery.rig import rig
from tests.http.test_errors import assert_problem
from tests.mail.test_mail_delivery import FROM, PUBLIC, TO, Post, texts
from tests.support.live import live
from tests.support.postgres import fresh_database
from tests.support.smtp_server import smtp_server_in_thread
from tests.ui.html_page import assert_page

FIELD = "options.async_mode.notify.email"
RULES = {"LANGLAUF_LIMITS": "mail_rate_address=2/1h", "LANGLAUF_MAIL_DOMAINS": "mail.example,*.below.example"}


def _order(address: str, query: str = "Bern") -> dict[str, Any]:
    options = {"async_mode": {"requested": True, "notify": {"email": address}}}
    return {"analysis": "echo", "input": {"query": query}, "options": options}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The usual store, or one in an empty database."""
    if request.param == "sqlite":
        yield {}
        return
    with fresh_database(server=request.getfixturevalue("postgres")) as url:
        yield {"LANGLAUF_STORE": url}


@pytest.fixture(scope="module")
def post(stored: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    with smtp_server_in_thread() as office:
        settings = {"LANGLAUF_SMTP": f"smtp://127.0.0.1:{office.port}", "LANGLAUF_MAIL_FROM": FROM, **RULES, **stored}
        with rig(tmp_path_factory.mktemp("rules"), **settings, LANGLAUF_PUBLIC_URL=PUBLIC) as running:
            made = Post(running.live)
            made.office = office
            yield made


def test_past_the_rate_a_mail_is_suppressed_with_the_reason(post: Post) -> None:
    """However the address is spelled; another org has a rate of its own."""
    for number, address in enumerate((TO, TO.upper(), TO)):
        made = post.live.http.post("/analyze", json=_order(address, f"{number}"), headers={"X-Org-Id": "loud"})
        post.live.wait(made.json()["job"]["job_id"], "loud")
        post.settled("loud", number=number + 1)
    found = [(one.delivery_status, one.attempt_count) for one in post.messages("loud")]
    assert found == [("suppressed", 1), ("sent", 1), ("sent", 1)]
    [kept, *_] = post.messages("loud")
    assert "mail_rate_address" in (kept.last_error or "")
    post.run("calm", query="Bern")
    assert post.mail("calm")[0].delivery_status == "sent"


@pytest.mark.parametrize(("address", "status"), [("a@mail.example", 202), ("a@x.below.example", 202)])
def test_a_domain_that_is_named_may_be_written_to(post: Post, address: str, status: int) -> None:
    assert post.live.http.post("/analyze", json=_order(address, address)).status_code == status


@pytest.mark.parametrize("address", ["a@other.example", "a@below.example", "a@evilmail.example", "a@mail.example.org"])
def test_another_domain_is_refused_at_submission(post: Post, address: str) -> None:
    """400 with the name of the member, and no job."""
    refused = post.live.http.post("/analyze", json=_order(address))
    problem = refused.json()
    assert (refused.status_code, problem["error"], problem["field"]) == (400, "bad_request", FIELD)
    assert "LANGLAUF_MAIL_DOMAINS" in problem["message"]


def test_the_start_page_says_what_is_wrong_with_a_receiver(post: Post) -> None:
    """Beside the entry, in the reader's words."""
    fields = {"analysis": "echo", "in.query": "Bern", "option.email": "a@other.example"}
    headers = {"Accept-Language": "de", "Origin": post.live.url, "X-Org-Id": "formal"}
    page = assert_page(post.live.http.post("/", data=fields, headers=headers), 400)
    assert "E-Mails an diese Domain sind nicht erlaubt." in page.text


def test_who_unsubscribes_by_one_click_gets_no_more_mail_of_that_org(post: Post) -> None:
    """As RFC 8058 has it: a POST to the address in the header, without a key, a cookie or a redirect."""
    post.run("weekly", query="first")
    _, [taken] = post.mail("weekly")
    assert taken.mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = re.fullmatch(rf"<({re.escape(PUBLIC)}/unsubscribe/\S+)>", str(taken.mail["List-Unsubscribe"]))
    assert link is not None
    assert all(link[1] in text for text in texts(taken))
    path = link[1].removeprefix(PUBLIC)
    assert_page(post.live.http.get(path, headers={"Accept": "text/html"}), 200)
    post.run("weekly", query="second")
    assert {one.delivery_status for one in post.settled("weekly", number=2)} == {"sent"}, "looking changes nothing"
    for _ in range(2):  # said again, it is no other
        done = post.live.http.post(path, data={"List-Unsubscribe": "One-Click"}, follow_redirects=False)
        assert_page(done, 200)
    post.run("weekly", query="third")
    [last, *_] = post.settled("weekly", number=3)
    assert (last.delivery_status, last.last_error) == (
        "suppressed",
        "the address has unsubscribed from mails of this org",
    )
    post.run("monthly", query="first")
    assert post.mail("monthly")[0].delivery_status == "sent"


def test_a_link_that_was_not_made_here_leads_nowhere(post: Post) -> None:
    post.run("signed", query="first")
    _, [taken] = post.mail("signed")
    path = str(taken.mail["List-Unsubscribe"]).strip("<>").removeprefix(PUBLIC)
    for wrong in (f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}", "/unsubscribe/llu_nonsense.x"):
        assert_page(post.live.http.post(wrong, data={"List-Unsubscribe": "One-Click"}), 404)
    assert post.ask(lambda store: store.tenant("signed").mail_marks()) == []


def test_the_page_asks_in_the_readers_language(post: Post) -> None:
    """Whom it is about can be recognised, and no more."""
    post.run("asked", query="first")
    _, [taken] = post.mail("asked")
    path = str(taken.mail["List-Unsubscribe"]).strip("<>").removeprefix(PUBLIC)
    page = assert_page(post.live.http.get(path, headers={"Accept-Language": "de"}), 200)
    assert "Keine E-Mails mehr über Jobs von asked an w…@mail.example senden?" in page.text
    assert TO not in page.text


def test_without_a_public_address_the_sender_is_written_to(tmp_path: Path) -> None:
    """A mailbox that a person reads: no link, and no click."""
    with smtp_server_in_thread() as office:
        settings = {"LANGLAUF_SMTP": f"smtp://127.0.0.1:{office.port}", "LANGLAUF_MAIL_FROM": FROM}
        with rig(tmp_path, **settings) as running:
            post = Post(running.live)
            post.office = office
            post.run("inner", query="first")
            _, [taken] = post.mail("inner")
    assert str(taken.mail["List-Unsubscribe"]) == "<mailto:jobs@sender.example?subject=unsubscribe%20inner>"
    assert taken.mail["List-Unsubscribe-Post"] is None
    assert "Unsubscribe" not in "".join(texts(taken))


def test_only_the_list_of_the_org_is_written_to_where_that_is_said(tmp_path: Path) -> None:
    """Refused with 400 until the address is on the list of that very org."""
    with live(tmp_path, LANGLAUF_MAIL_ONLY_LISTED="1", LANGLAUF_DELIVERIES="0") as server:
        store = server.app.settings.store_path

        def keep(*words: str) -> None:
            done = CliRunner().invoke(main, ["mail", *words, "--store", store], prog_name="langlauf")
            assert done.exit_code == 0, done.output

        def ask(org: str) -> Any:
            return server.http.post("/analyze", json=_order(TO, org), headers={"X-Org-Id": org})

        problem = assert_problem(ask("acme"), 400, "bad_request")
        assert problem["field"] == FIELD
        assert "langlauf mail allow" in problem["message"]
        keep("allow", TO.upper(), "--org", "acme")
        assert ask("acme").status_code == 202
        assert_problem(ask("other"), 400, "bad_request")
        keep("remove", TO, "--org", "acme")
        assert_problem(ask("acme"), 400, "bad_request")
