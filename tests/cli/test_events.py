"""`langlauf events`: what is there, what comes, and how to go on."""

import json
import re
import signal
import subprocess

from langlauf.client import Client
from tests.cli.conftest import Commands


def test_events_are_lines_and_the_end_says_how_to_go_on(langlauf: Commands, client: Client) -> None:
    """A time, a kind, a job, and its result; the command that is told shows the rest."""
    job = client.submit("echo", value=1)
    result_id = job.wait(60).result_id
    shown = langlauf.run("events", "--limit", "2")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert [(words[-2], words[-1]) for words in lines] == [("queued", job.job_id), ("started", job.job_id)]
    told = re.search(r"langlauf events --follow --after (\S+)", shown.stderr)
    assert told
    rest = langlauf.run("events", "--after", told[1])
    assert rest.stdout.split()[-3:] == ["completed", job.job_id, result_id]
    assert langlauf.run("events", "--type", "failed").stdout == ""


def test_events_as_json_are_one_document(langlauf: Commands, client: Client) -> None:
    """With the place to go on from."""
    job = client.submit("echo", value=1)
    job.wait(60)
    found = langlauf.json("events")
    assert [event["data"]["job_id"] for event in found["events"]] == 3 * [job.job_id]
    assert langlauf.json("events", "--after", found["next_after"]) == {"events": [], "next_after": found["next_after"]}


def test_followed_events_come_line_by_line_until_somebody_leaves(langlauf: Commands, client: Client) -> None:
    """Each line is whole when it comes; Ctrl-C ends it with 130, and says how to go on."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with langlauf.start("events", "--follow", "--json", **pipes) as process:
        try:
            job = client.submit("echo", value=1)
            assert process.stdout is not None
            assert process.stderr is not None
            seen = [json.loads(process.stdout.readline()) for _ in range(3)]
            assert {event["subject"] for event in seen} == {job.job_id}
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert "langlauf events --follow --after" in process.stderr.read()
        finally:
            process.kill()


def test_a_place_that_nobody_gave_out_is_refused(langlauf: Commands) -> None:
    """With what the server says about it."""
    assert "place" in langlauf.run("events", "--after", "nowhere", exit_code=2).stderr
