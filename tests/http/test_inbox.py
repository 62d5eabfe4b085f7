"""The inbox over HTTP: what has ended, in pages, and what somebody has seen of it."""

from typing import Any

import pytest

from langlauf.clock import new_id
from langlauf.domain.access import Scope
from langlauf.service import notifications
from tests.http.keyed_server import KeyedServer
from tests.http.test_errors import assert_problem
from tests.support.keys import bearer, make_key
from tests.support.live import Live


class Box:
    """The inbox of an org of its own."""

    def __init__(self, server: Live, jobs: int = 0) -> None:
        self._http = server.http
        self.headers = {"X-Org-Id": new_id()}
        self.jobs: list[str] = []
        for number in range(jobs):
            made = server.submit("echo", self.headers["X-Org-Id"], query=f"{number}")["job_id"]
            server.wait(made, self.headers["X-Org-Id"])
            self.jobs.insert(0, made)

    def page(self, **query: Any) -> dict[str, Any]:
        """A page."""
        answer = self._http.get("/analyze/inbox", params=query, headers=self.headers)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def walk(self, **query: Any) -> list[str]:
        """All pages."""
        page = self.page(**query)
        seen = [one["job_id"] for one in page["notifications"]]
        while page["next_cursor"] is not None:
            page = self.page(**query, cursor=page["next_cursor"])
            seen += [one["job_id"] for one in page["notifications"]]
        return seen

    def read(self, **body: Any) -> tuple[bool, int]:
        """Marks some; whether that changed anything, and how many are unread now."""
        answer = self._http.post("/analyze/inbox/read", json=body, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["changed"], answer.json()["unread"]


def test_what_has_ended_newest_first(server: Live) -> None:
    """With the fields of a notification, whether it was read, and how many were not; reading marks nothing."""
    box = Box(server, 2)
    failed = server.submit("failing", box.headers["X-Org-Id"], how="permanent")["job_id"]
    server.wait(failed, box.headers["X-Org-Id"])
    for _ in range(2):
        page = box.page()
        assert [one["job_id"] for one in page["notifications"]] == [failed, *box.jobs]
        assert (page["unread"], page["next_cursor"], page["ok"]) == (3, None, True)
    first = page["notifications"][0]
    assert (first["template_key"], first["channel"], first["unread"], first["read_at"]) == (
        "async.job.failed",
        "in_app",
        True,
        None,
    )
    notes = server.http.get(f"/analyze/jobs/{failed}/notifications", headers=box.headers).json()["notifications"]
    assert [{**notes[0], "read_at": None, "unread": True}] == [first]


def test_every_size_of_page_gives_the_same_list(server: Live) -> None:
    """Also of what is unread; the link to the next page is the next page."""
    box = Box(server, 5)
    for limit in (1, 2, 5, 200):
        assert box.walk(limit=limit) == box.walk(limit=limit, unread="true") == box.jobs
    answer = server.http.get("/analyze/inbox", params={"limit": 2}, headers=box.headers)
    link = answer.headers["link"].partition(">")[0].lstrip("<")
    assert [one["job_id"] for one in server.http.get(link, headers=box.headers).json()["notifications"]] == box.jobs[
        2:4
    ]


def test_marking_is_idempotent(server: Live) -> None:
    """One, some, all up to an instant; each of it twice."""
    box = Box(server, 5)
    ids = [one["notification_id"] for one in box.page()["notifications"]]
    assert box.read(notification_id=ids[0]) == (True, 4)
    assert box.read(notification_id=ids[0]) == (False, 4)
    assert box.read(notification_ids=[ids[0], ids[2], ids[2]]) == (True, 3)
    assert box.walk(unread="true", limit=1) == [box.jobs[1], *box.jobs[3:]]
    messages = box.page()["notifications"]
    assert [one["read_at"] is not None for one in messages] == [True, False, True, False, False]
    assert box.read(until=messages[3]["created_at"]) == (True, 1)
    assert box.read(until=messages[3]["created_at"]) == (False, 1)
    assert box.walk(unread="true") == [box.jobs[1]]
    assert box.read(until="2999-01-01T00:00:00Z") == (True, 0)
    last = box.page(unread="true")
    assert (last["notifications"], last["next_cursor"], last["unread"]) == ([], None, 0)
    assert box.walk(unread="false") == box.jobs


def test_an_instant_ahead_hides_nothing_that_comes_later(server: Live) -> None:
    """Nobody has seen what is not there yet."""
    box = Box(server, 1)
    assert box.read(until="2999-01-01T00:00:00Z") == (True, 0)
    late = server.submit("echo", box.headers["X-Org-Id"], query="late")["job_id"]
    server.wait(late, box.headers["X-Org-Id"])
    assert box.walk(unread="true") == [late]


def test_unread_ones_are_looked_for_in_steps(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may be empty and not the last; all of them find what there is, and what was marked together ends it."""
    monkeypatch.setattr(notifications, "_INBOX_STEP", 1)
    monkeypatch.setattr(notifications, "_MOST_INBOX_STEPS", 2)
    box = Box(server, 6)
    messages = box.page()["notifications"]
    box.read(notification_ids=[one["notification_id"] for one in messages[:3]])
    first = box.page(unread="true")
    assert (first["notifications"], first["next_cursor"] is None) == ([], False)
    assert box.walk(unread="true") == box.jobs[3:]
    box.read(until=messages[4]["created_at"])
    assert box.walk(unread="true") == [box.jobs[3]]


def test_ids_of_others_are_like_those_of_nobody(server: Live) -> None:
    """Neither changes anything, here or there, and a cursor is good for its own list alone."""
    mine, other = Box(server, 3), Box(server, 2)
    theirs = [one["notification_id"] for one in other.page()["notifications"]]
    for body in ({"notification_id": theirs[0]}, {"notification_ids": theirs}, {"notification_id": new_id()}):
        answer = server.http.post("/analyze/inbox/read", json=body, headers=mine.headers).json()
        assert (answer["changed"], answer["unread"]) == (False, 3)
    assert mine.read(until="2999-01-01T00:00:00Z") == (True, 0)
    assert other.page()["unread"] == 2
    cursor = other.page(limit=1)["next_cursor"]
    for headers, query in ((mine.headers, {}), (other.headers, {"unread": "true"})):
        refused = server.http.get("/analyze/inbox", params={"cursor": cursor, **query}, headers=headers)
        assert_problem(refused, 400, "bad_request")
    nobody = Box(server)
    assert (nobody.read(until="2999-01-01T00:00:00Z"), nobody.walk()) == ((False, 0), [])


def test_a_wish_that_names_nothing_is_refused(server: Live) -> None:
    """400, and nothing is marked."""
    box = Box(server, 1)
    bodies: list[dict[str, Any]] = [
        {},
        {"notification_ids": []},
        {"notification_id": None},
        {"notification_id": ""},
        {"notification_id": "x" * 129},
        {"notification_ids": ["x"] * 101},
        {"until": "yesterday"},
        {"until": "2026-01-01T00:00:00"},
        {"ids": ["x"]},
    ]
    for body in bodies:
        assert_problem(server.http.post("/analyze/inbox/read", json=body, headers=box.headers), 400, "bad_request")
    assert box.page()["unread"] == 1


@pytest.mark.parametrize("query", [{"unread": "1"}, {"limit": "0"}, {"limit": "201"}, {"cursor": "x"}, {"page": "2"}])
def test_a_question_that_is_none_is_refused(server: Live, query: dict[str, str]) -> None:
    """400 that names the parameter."""
    assert_problem(server.http.get("/analyze/inbox", params=query), 400, "bad_request")


def test_whoever_may_read_may_mark(closed: KeyedServer, job: dict[str, Any]) -> None:
    """It is the org's; whoever may only submit may neither, and a token for one job sees no inbox."""
    reader = bearer(make_key(closed.store, "org-a", Scope.READ).text)
    newest = closed.live.http.get("/analyze/inbox", headers=reader).json()["notifications"][0]
    wish = {"notification_id": newest["notification_id"]}
    assert closed.live.http.post("/analyze/inbox/read", json=wish, headers=reader).json()["changed"] is True
    submitter = bearer(make_key(closed.store, "org-a", Scope.SUBMIT).text)
    made = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", json={}, headers=reader).json()
    for headers in (submitter, bearer(made["token"])):
        assert_problem(closed.live.http.get("/analyze/inbox", headers=headers), 403, "forbidden")
        assert_problem(closed.live.http.post("/analyze/inbox/read", json=wish, headers=headers), 403, "forbidden")
    assert_problem(closed.live.http.get("/analyze/inbox"), 401, "unauthorized")
