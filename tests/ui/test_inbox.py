"""The inbox: what has ended, what of it is unread, and that reading it says so everywhere."""

import pytest

from langlauf.clock import new_id
from langlauf.ui.pages import ended_jobs as inbox_page
from tests.support.live import Live
from tests.ui.html_page import HtmlPage, assert_page
from tests.ui.test_lists import ended, listed


def unread(made: HtmlPage) -> list[str]:
    """The messages that nobody has seen."""
    return [one["id"].removeprefix("message-") for one in made.all("li") if "unread" in one.get("class", "")]


def send(server: Live, org: str, **fields: str) -> str:
    """Sends a form of the inbox, and gives where it leads."""
    response = server.http.post("/inbox/read", data=fields, headers={"X-Org-Id": org, "Origin": server.url})
    assert response.status_code == 303, response.text
    return response.headers["location"]


def until_of(made: HtmlPage) -> str:
    """Up to when the button for all marks messages."""
    return next(one["value"] for one in made.all("input") if one.get("name") == "until")


def test_messages_lead_to_what_they_tell_of(server: Live, org: str) -> None:
    """To the result of a job that completed, and to a job that failed before it had one."""
    done = ended(server, org, "echo", query="Bern")
    made = listed(server, org, "/inbox")
    assert "echo: completed" in made.text
    assert f"./results/{done['result_id']}" in made.links()
    broken = ended(server, org, "failing", how="permanent")
    made = listed(server, org, "/inbox")
    assert made.text.index("failing: failed") < made.text.index("echo: completed")
    assert "no such place" in made.text
    assert f"./jobs/{broken['job_id']}" in made.links()
    assert "No messages yet." in listed(server, new_id(), "/inbox").text


def test_one_message_is_marked_as_read(server: Live, org: str) -> None:
    """It stays, without its mark; the head of every page counts one less. Another org cannot."""
    ended(server, org, "echo", query="1")
    ended(server, org, "echo", query="2")
    newer, older = unread(listed(server, org, "/inbox"))
    assert "2 unread" in listed(server, org, "/jobs").text
    send(server, new_id(), message=newer)
    assert unread(listed(server, org, "/inbox")) == [newer, older]
    assert send(server, org, message=newer) == "../inbox"
    assert unread(listed(server, org, "/inbox")) == [older]
    assert "1 unread" in listed(server, org, "/jobs").text


def test_opening_what_a_message_tells_of_marks_it(server: Live, org: str) -> None:
    """Once a browser shows the page of the job or of its result to a person, and not where a script fetches it."""
    shown = {"Sec-Fetch-Dest": "document"}
    done, broken = ended(server, org, "echo", query="1"), ended(server, org, "failing", how="permanent")
    result, job = f"/results/{done['result_id']}", f"/jobs/{broken['job_id']}"
    for headers in ({}, {"Sec-Fetch-Dest": "empty"}, {**shown, "Sec-Purpose": "prefetch"}):
        assert "2 unread" in assert_page(server.http.get(result, headers={"X-Org-Id": org, **headers})).text
    assert_page(server.http.get(result, headers={"X-Org-Id": new_id(), **shown}), 404)
    for address, left in ((result, 1), (result, 1), (job, 0)):
        made = assert_page(server.http.get(address, headers={"X-Org-Id": org, **shown}))
        assert ("1 unread" in made.text) == bool(left)
        assert len(unread(listed(server, org, "/inbox"))) == left


def test_all_that_were_seen_are_marked_at_once(server: Live, org: str) -> None:
    """What came after the page was made stays unread."""
    ended(server, org, "echo", query="1")
    ended(server, org, "echo", query="2")
    until = until_of(listed(server, org, "/inbox"))
    ended(server, org, "echo", query="3")
    send(server, org, until=until)
    assert len(unread(listed(server, org, "/inbox"))) == 1
    send(server, org, until=until_of(listed(server, org, "/inbox")))
    made = listed(server, org, "/inbox")
    assert "No unread messages." in made.text
    assert not [one for one in made.all("input") if one.get("name") == "until"]
    assert "unread" not in listed(server, org, "/jobs").text


def test_older_messages_are_on_pages_of_their_own(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message read on such a page leads back to it."""
    monkeypatch.setattr(inbox_page, "INBOX_PAGE_SIZE", 1)
    ended(server, org, "echo", query="1")
    ended(server, org, "echo", query="2")
    first = listed(server, org, "/inbox")
    [older] = [one["href"] for one in first.all("a") if one.get("rel") == "next"]
    second = listed(server, org, older.removeprefix("."))
    assert unread(first) != unread(second)
    [at] = {one["value"] for one in second.all("input") if one.get("name") == "at"}
    assert send(server, org, message=unread(second)[0], at=at) == f".{older}"
    assert send(server, org, at="//elsewhere.test") == "../inbox"
