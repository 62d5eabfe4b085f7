"""The example that watches an ontology: a schedule, what changed, and a mail only then."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples import watch
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.smtp_server import SmtpServer, smtp_server_in_thread

ADDRESS = "gardener@example.org"


@pytest.fixture
def office() -> Iterator[SmtpServer]:
    """A mail server."""
    with smtp_server_in_thread() as running:
        yield running


@pytest.fixture
def garden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the ontology, which the test changes."""
    monkeypatch.setattr(watch, "FOLDER", tmp_path)
    return Path(shutil.copy(Path(watch.__file__).with_name("garden.obo"), tmp_path))


@pytest.fixture
def served(tmp_path: Path, office: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """The example as a server that can send mail."""
    mail = {"LANGLAUF_SMTP": f"smtp://127.0.0.1:{office.port}?tls=none", "LANGLAUF_MAIL_FROM": "jobs@example.org"}
    with live(tmp_path, watch.app, LANGLAUF_PUBLIC_URL="http://127.0.0.1", **mail) as server:
        monkeypatch.setenv("LANGLAUF_URL", server.url)
        monkeypatch.setenv("WATCH_EMAIL", ADDRESS)
        yield server


def _run(server: Live) -> dict[str, Any]:
    answer = server.http.post("/analyze/schedules/watch/run")
    assert answer.status_code == 202, answer.text
    job = server.wait(answer.json()["job"]["job_id"])
    assert job["status"] == "completed", job
    result: dict[str, Any] = server.http.get(f"/analyze/results/{job['result_id']}").json()["result"]
    return {**job, "changes": result["changes"]}


def test_what_changed_is_shown_and_mailed(served: Live, garden: Path, office: SmtpServer) -> None:
    """Nothing while nothing is new; then a page with the difference, and a mail that leads to it."""
    [schedule] = served.http.get("/analyze/schedules").json()["schedules"]
    assert (schedule["name"], schedule["cron"], schedule["zone"]) == ("watch", "0 6 * * *", "Europe/Zurich")
    for _ in range(2):
        same = _run(served)
        assert (same["changes"], _mails(served, same)) == ([], [])

    text = garden.read_text("utf-8").replace("name: thyme", "name: wild thyme")
    text = text.replace("id: G:5\nname: pear tree", "id: G:6\nname: plum tree")
    garden.write_text(text, "utf-8")
    job = _run(served)
    assert [(one["change"], one["id"], one["now"]) for one in job["changes"]] == [
        ("renamed", "G:4", "wild thyme"),
        ("removed", "G:5", None),
        ("added", "G:6", "plum tree"),
    ]
    page = served.http.get(f"/results/{job['result_id']}?lang=en").text
    for words in ("What changed", "wild thyme", "plum tree", "pear tree"):
        assert words in page
    facts = served.http.get(f"/analyze/results/{job['result_id']}/provenance").json()["provenance"]
    assert (facts["schedule"], [one["name"] for one in facts["sources"]]) == ("watch", ["garden"])
    assert facts["sources"][0]["hash"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    [delivery] = eventually(lambda: [one for one in _mails(served, job) if one["delivery_status"] != "pending"])
    assert delivery["delivery_status"] == "sent", delivery
    [mail] = office.taken
    assert mail.receivers == (ADDRESS,)
    body = mail.mail.get_body(("plain",))
    assert body is not None
    assert re.search(rf"/(results|jobs)/({job['result_id']}|{job['job_id']})", body.get_content())
    same = _run(served)
    assert (same["changes"], _mails(served, same)) == ([], [])


def _mails(server: Live, job: dict[str, Any]) -> list[dict[str, Any]]:
    """The mails about a job: they are written with its end, and sent later."""
    answer = server.http.get(f"/analyze/jobs/{job['job_id']}/notifications", params={"channel": "email"})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["notifications"]
    return found
