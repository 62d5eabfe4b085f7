"""`langlauf hold` and `release`, and what they print."""

from langlauf.client import Client
from tests.cli.conftest import Commands


def test_a_result_is_held_listed_and_released(langlauf: Commands, client: Client) -> None:
    """For people and as JSON; holding again tells who came first."""
    assert "No held results" in langlauf.run("hold", "--list").stderr
    job = langlauf.json("submit", "value=1", "--wait")
    shown = langlauf.run("hold", job["result_id"], "--reason", "audit 2026")
    assert "is held" in shown.stdout
    assert "audit 2026" in shown.stdout
    assert f"langlauf release {job['result_id']}" in shown.stderr
    assert langlauf.json("hold", job["result_id"], "--reason", "other")["hold_reason"] == "audit 2026"
    assert "audit 2026" in langlauf.run("hold", "--list").stdout
    assert [one["job_id"] for one in langlauf.json("hold", "--list")] == [job["job_id"]]
    assert [one.job_id for one in client.held(limit=5)] == [job["job_id"]]
    assert client.job(job["job_id"]).status().hold_reason == "audit 2026"
    assert "is not held" in langlauf.run("release", job["result_id"]).stdout
    assert langlauf.json("release", job["result_id"])["held_at"] is None
    assert list(client.held()) == []


def test_what_does_not_exist_cannot_be_held(langlauf: Commands) -> None:
    """Exit code 4, and 2 where it is not said what is meant."""
    langlauf.run("hold", "nothing", exit_code=4)
    langlauf.run("release", "nothing", exit_code=4)
    langlauf.run("hold", exit_code=2)
    langlauf.run("hold", "nothing", "--list", exit_code=2)
