"""`langlauf schedules`: add, list, pause, resume, run and remove."""

from langlauf.client import Client
from tests.cli.conftest import Commands


def test_a_schedule_from_the_command_line(langlauf: Commands, client: Client) -> None:
    """From its first word to its removal; what it prints is the next runs."""
    added = langlauf.run(
        "schedules", "add", "echo", "value=1", "--name", "cli", "--cron", "0 6 * * 1-5", "--zone", "Europe/Zurich"
    )
    assert len(added.stdout.splitlines()) == 5
    [one] = [one for one in client.schedules() if one.name == "cli"]
    assert (one.input["value"], one.zone) == (1, "Europe/Zurich")
    assert "cli" in langlauf.run("schedules", "list").stdout
    assert langlauf.json("schedules", "pause", "cli")["paused"] is True
    assert "paused" in langlauf.run("schedules", "list").stdout
    job_id = langlauf.run("schedules", "run", "cli").stdout.strip()
    assert client.job(job_id).wait().schedule == "cli"
    assert langlauf.json("schedules", "resume", "cli")["paused"] is False
    langlauf.run("schedules", "add", "echo", "--name", "cli", "--every", "1h", exit_code=7)
    langlauf.run("schedules", "add", "echo", "--name", "other", "--cron", "daily", exit_code=2)
    langlauf.run("schedules", "add", "--cron", "0 6 * * *", exit_code=2)
    langlauf.run("schedules", "remove", "cli")
    langlauf.run("schedules", "remove", "cli", exit_code=4)
