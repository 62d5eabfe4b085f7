"""`/schedules`: last and next runs, in both languages, and forms that work without a script."""

from collections.abc import Iterator

import pytest

from langlauf import Job
from tests.support.live import Live, live, sample_app
from tests.ui.forms import FROM_HERE, fill, form_fields
from tests.ui.html_page import assert_page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses, and one with a title."""
    app = sample_app()

    @app.analysis(title="Survey of a region")
    async def survey(job: Job, region: str, years: int = 3) -> dict[str, str]:
        """Return the region."""
        return {"region": region}

    with live(tmp_path_factory.mktemp("schedules"), app, LANGLAUF_MAX_RUNNING="4") as running:
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


def test_a_form_adds_a_schedule(server: Live, org: str) -> None:
    """With the fields of the chosen analysis; it leads to the new schedule, which has the title of its analysis."""
    headers = {"X-Org-Id": org}
    data = fill(server, "/schedules?analysis=survey", headers, region="Bern") | {
        "option.name": "winter",
        "option.cron": "30 6 * * 1",
        "option.zone": "Europe/Zurich",
        "option.missed": "none",
    }
    sent = server.http.post("/schedules", data=data, headers={**FROM_HERE, **headers}, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    assert sent.headers["location"].endswith("/schedules#s-winter")
    made = server.http.get("/analyze/schedules/winter", headers=headers).json()["schedule"]
    assert (made["analysis"], made["input"]["region"], made["cron"]) == ("survey", "Bern", "30 6 * * 1")
    assert (made["zone"], made["overlap"], made["missed"]) == ("Europe/Zurich", "skip", "none")
    assert "Survey of a region" in assert_page(server.http.get("/schedules", headers=headers)).text


@pytest.mark.parametrize(
    ("fields", "field", "german"),
    [
        ({"option.name": ""}, "option.name", "Pflicht"),
        ({"option.name": "two words"}, "option.name", "Muster"),
        ({"option.name": "taken"}, "option.name", "schon einen Zeitplan"),
        ({"option.cron": ""}, "option.cron", "entweder Uhrzeiten oder einen Abstand"),
        ({"option.every_seconds": "1h"}, "option.cron", "entweder Uhrzeiten oder einen Abstand"),
        ({"option.cron": "every day"}, "option.cron", "fünf Felder"),
        ({"option.cron": "", "option.every_seconds": "often"}, "option.every_seconds", "Dauer wie 30m"),
        ({"option.cron": "", "option.every_seconds": "0.1"}, "option.every_seconds", "zwischen einer Sekunde"),
        ({"option.zone": "Mars/Olympus"}, "option.zone", "Diese Zeitzone gibt es nicht"),
        ({"option.missed": "maybe"}, "option.missed", "once"),
        ({"in.region": ""}, "in.region", "Pflicht"),
    ],
)
def test_errors_of_the_form_stand_at_their_field(
    server: Live, org: str, fields: dict[str, str], field: str, german: str
) -> None:
    """In the reader's language, with a link to the field; what was typed stays, and nothing is added."""
    _add(server, org, name="taken")
    headers = {"X-Org-Id": org, "Accept-Language": "de"}
    data = fill(server, "/schedules?analysis=survey", headers, region="Bern")
    data |= {"option.name": "new", "option.cron": "0 6 * * *", **fields}
    sent = server.http.post("/schedules", data=data, headers={**FROM_HERE, **headers})
    assert sent.status_code == 400
    page = assert_page(sent, status=400)
    assert f"#{field}" in page.links()
    assert german in page.text
    assert form_fields(page)["option.zone"] == data["option.zone"]
    assert len(server.http.get("/analyze/schedules", headers=headers).json()["schedules"]) == 1


def test_the_schedule_of_another_org_is_not_found(server: Live, org: str) -> None:
    """The page for what is not there, and nothing has changed."""
    _add(server, org)
    for what in ("run", "pause", "remove"):
        answer = server.http.post(
            f"/schedules/morning/{what}", data={"form": "sent"}, headers={**FROM_HERE, "X-Org-Id": f"{org}-b"}
        )
        assert answer.status_code == 404
    assert len(server.http.get("/analyze/schedules", headers={"X-Org-Id": org}).json()["schedules"]) == 1


@pytest.fixture(scope="module")
def notifying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that has a mail server and a secret for webhooks, and sends nothing by itself."""
    settings = {
        "LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none",
        "LANGLAUF_MAIL_FROM": "jobs@example.org",
        "LANGLAUF_WEBHOOK_SECRET": "whsec_" + "A" * 44,
        "LANGLAUF_DELIVERIES": "0",
    }
    with live(tmp_path_factory.mktemp("notifying"), **settings) as running:
        yield running


def test_a_form_says_whom_to_notify(server: Live, notifying: Live, org: str) -> None:
    """Only where something can be sent; the language of the mails is that of the page."""
    headers = {"X-Org-Id": org, "Accept-Language": "de"}
    assert "option.email" not in form_fields(assert_page(server.http.get("/schedules?analysis=echo", headers=headers)))
    data = fill(notifying, "/schedules?analysis=echo", headers, query="Bern")
    data |= {"option.name": "daily", "option.every_seconds": "24h", "option.email": "anna@example.org"}
    data |= {"option.webhook": "https://hooks.example.org/x"}
    sent = notifying.http.post("/schedules", data=data, headers={**FROM_HERE, **headers}, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    made = notifying.http.get("/analyze/schedules/daily", headers=headers).json()["schedule"]
    targets = {"email": "anna@example.org", "webhook": "https://hooks.example.org/x"}
    assert made["notify"] == {**targets, "language": "de"}
    page = assert_page(notifying.http.get("/schedules", headers=headers))
    assert "gehen an anna@example.org, https://hooks.example.org/x." in page.text


@pytest.mark.parametrize(("field", "text"), [("option.email", "nobody"), ("option.webhook", "http://10.0.0.1/x")])
def test_a_target_that_can_get_nothing_stands_at_its_field(notifying: Live, org: str, field: str, text: str) -> None:
    """What was typed stays, and nothing is added."""
    headers = {"X-Org-Id": org}
    data = fill(notifying, "/schedules?analysis=echo", headers, query="Bern")
    data |= {"option.name": "daily", "option.every_seconds": "24h", field: text}
    page = assert_page(notifying.http.post("/schedules", data=data, headers={**FROM_HERE, **headers}), status=400)
    assert f"#{field}" in page.links()
    assert form_fields(page)[field] == text
    assert notifying.http.get("/analyze/schedules", headers=headers).json()["schedules"] == []
