"""`/schedules`: last and next runs, in both languages, and forms that work without a script."""

from collections.abc import Iterator

import pytest

from tests.support.live import Live, live
from tests.ui.forms import FROM_HERE
from tests.ui.html_page import assert_page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses."""
    with live(tmp_path_factory.mktemp("schedules"), LANGLAUF_MAX_RUNNING="4") as running:
        yield running


def _add(server: Live, org: str, **fields: object) -> None:
    body = {"name": "morning", "input": {"query": "Bern"}, "cron": "0 6 * * 1-5", "zone": "Europe/Zurich", **fields}
    assert server.http.post("/analyze/schedules", json=body, headers={"X-Org-Id": org}).status_code == 201


def _send(server: Live, org: str, path: str, **fields: str) -> str:
    answer = server.http.post(
        f"/schedules/{path}",
        data={"form": "sent", **fields},
        headers={**FROM_HERE, "X-Org-Id": org},
        follow_redirects=False,
    )
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


@pytest.mark.parametrize(("language", "title"), [("en", "Next runs"), ("de", "Nächste Läufe")])
def test_the_page_shows_the_next_five_runs(server: Live, org: str, language: str, title: str) -> None:
    """As times that a script shows in the reader's zone; an org without any is told how to add one."""
    headers = {"X-Org-Id": org, "Accept-Language": language}
    assert "langlauf schedules add" in assert_page(server.http.get("/schedules", headers=headers)).text
    _add(server, org)
    made = assert_page(server.http.get("/schedules", headers=headers))
    assert title in made.text
    planned = server.http.get("/analyze/schedules/morning", headers=headers).json()["schedule"]["next_runs"]
    shown = [one["datetime"][:19] for one in made.all("time")]
    assert [at[:19] for at in planned] == shown


def test_forms_run_pause_resume_and_remove(server: Live, org: str) -> None:
    """Each leads back to the page, or to the job that it made."""
    _add(server, org)
    headers = {"X-Org-Id": org}
    job_id = _send(server, org, "morning/run").rpartition("/")[2]
    assert server.wait(job_id, org)["schedule"] == "morning"
    assert f"jobs/{job_id}" in server.http.get("/schedules", headers=headers).text
    _send(server, org, "morning/pause", paused="yes")
    assert "Nothing is planned." in assert_page(server.http.get("/schedules", headers=headers)).text
    _send(server, org, "morning/pause", paused="no")
    assert "Nothing is planned." not in server.http.get("/schedules", headers=headers).text
    _send(server, org, "morning/remove")
    assert server.http.get("/analyze/schedules", headers=headers).json()["schedules"] == []


def test_the_schedule_of_another_org_is_not_found(server: Live, org: str) -> None:
    """The page for what is not there, and nothing has changed."""
    _add(server, org)
    for what in ("run", "pause", "remove"):
        answer = server.http.post(
            f"/schedules/morning/{what}", data={"form": "sent"}, headers={**FROM_HERE, "X-Org-Id": f"{org}-b"}
        )
        assert answer.status_code == 404
    assert len(server.http.get("/analyze/schedules", headers={"X-Org-Id": org}).json()["schedules"]) == 1
