"""`langlauf pause` and `resume`, and what they print."""

import re
import socket
from datetime import datetime

from langlauf.client import Client
from tests.cli.conftest import Commands


def test_an_analysis_is_paused_and_resumed(langlauf: Commands, client: Client) -> None:
    """For an org, until a time of day, a duration or a date; for people and as JSON."""
    name = client.submit(value=1).status().analysis
    shown = langlauf.run("pause", name, "--because", "the source is down", "--until", "2h")
    assert f"{name} is paused for org-" in shown.stderr
    assert "the source is down" in shown.stderr
    assert f"langlauf resume {name}" in shown.stderr
    job = client.submit(value=2)
    assert job.accepted is not None
    assert (job.accepted.phase, job.accepted.paused_because) == ("paused", "the source is down")
    assert "it waits, as its analysis is paused until" in langlauf.run("submit", "value=3").stderr
    state = langlauf.run("status", job.job_id).stdout
    assert "queued (paused)" in state
    assert re.search(r"Paused +until .+: the source is down", state)
    assert "Time left" not in state
    one = langlauf.json("pause", name, "--because", "checked", "--until", "2099-12-24T18:00")
    assert one["because"] == "checked"
    assert datetime.fromisoformat(one["paused_until"]) > datetime.fromisoformat(one["paused_at"])
    assert langlauf.json("pause", name, "--because", "x", "--until", "23:59:59")["paused_until"]
    assert langlauf.json("resume", name) == {"resumed": True}
    client.pause(name, because="again")
    assert "may start jobs again" in langlauf.run("resume", name).stderr
    assert "was not paused" in langlauf.run("resume", name).stderr
    assert job.wait(60).status == "completed"


def test_what_cannot_be_paused(langlauf: Commands) -> None:
    """Exit code 4 for an unknown analysis, 2 without a reason or with a time that is none."""
    unknown = langlauf.run("pause", "nothing", "--because", "x", exit_code=4)
    assert "known are" in unknown.stderr
    assert "langlauf jobs" not in unknown.stderr
    assert "all orgs" in langlauf.run("pause", "--help").stdout
    assert "default-org" not in langlauf.run("pause", "--help").stdout
    langlauf.run("pause", "nothing", exit_code=2)
    langlauf.run("pause", "nothing", "--because", "x", "--until", "teatime", exit_code=2)


def test_provenance_is_printed(langlauf: Commands, client: Client) -> None:
    """For people, as JSON and as PROV; exit code 4 for a job that is not there."""
    job = client.submit("steps", count=1)
    state = job.wait(60)
    shown = langlauf.run("provenance", job.job_id).stdout
    assert state.request_payload_hash in shown
    assert "code version" in shown
    assert "Numbers 1 https://example.org/numbers" in shown
    assert re.search(rf"attempt +1: \S+ completed \S+ on {socket.gethostname()}", shown)
    facts = langlauf.json("provenance", job.job_id)
    assert (facts["job_id"], facts["attempt"]) == (job.job_id, 1)
    assert "wasGeneratedBy" in langlauf.json("provenance", job.job_id, "--prov")
    langlauf.run("provenance", "nothing", exit_code=4)
