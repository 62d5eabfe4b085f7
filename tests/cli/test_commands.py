"""What each client command does and prints."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from langlauf.cli.job_output import print_outcome
from langlauf.cli.main import main
from langlauf.cli.options import parse_time
from langlauf.client import Client
from langlauf.client.models import JobState
from langlauf.settings import SETTINGS
from tests.cli.conftest import Commands
from tests.support.server import SAMPLE_APP, run_command


def test_submit_prints_the_id_alone(langlauf: Commands, client: Client) -> None:
    """A script can take the id from standard output; the hint is on standard error."""
    result = langlauf.run("submit", "value=1")
    job_id = result.stdout.strip()
    assert client.job(job_id).status().job_id == job_id
    assert f"langlauf watch {job_id}" in result.stderr


def test_words_are_json_or_text(langlauf: Commands) -> None:
    """A value that is JSON is taken as JSON, anything else as text."""
    for word, value in [
        ("3", 3),
        ("CH", "CH"),
        ('"3"', "3"),
        ("[1, null]", [1, None]),
        ("true", True),
        ("", ""),
        ("NaN", "NaN"),
        ("a=b", "a=b"),
    ]:
        assert json.loads(langlauf.run("submit", f"value={word}", "--wait").stdout)["value"] == value


def test_a_value_may_stand_in_a_file(langlauf: Commands, tmp_path: Path) -> None:
    """The text of a file is a text and never JSON; `@@` writes a text that begins with `@`."""
    file = tmp_path / "table.csv"
    file.write_bytes("\ufeffname;größe\r\na;1\r\n".encode())
    for word, stdin, value in [
        (f"@{file}", None, "name;größe\r\na;1\r\n"),
        ("@-", "[1, 2]", "[1, 2]"),
        ("@@home", None, "@home"),
    ]:
        result = langlauf.run("submit", f"value={word}", "--wait", stdin=stdin)
        assert json.loads(result.stdout)["value"] == value
    missing = langlauf.run("submit", f"value=@{tmp_path / 'none.csv'}", exit_code=2)
    assert "none.csv cannot be read: No such file" in missing.stderr
    file.write_bytes(b"caf\xe9")
    assert "is not UTF-8 (byte 3)" in langlauf.run("submit", f"value=@{file}", exit_code=2).stderr


def test_input_from_flag_file_and_standard_input(langlauf: Commands, tmp_path: Path) -> None:
    """A JSON object may come from anywhere, and words add to it."""
    file = tmp_path / "input.json"
    file.write_text('{"count": 1}')
    for words, stdin in [
        (("--input", '{"count": 1}'), None),
        (("--input-file", str(file)), None),
        (("--input-file", "-"), '{"count": 1}'),
        (("--input", '{"count": 7}', "count=1"), None),
    ]:
        result = langlauf.run("submit", "-a", "steps", *words, "--wait", stdin=stdin)
        assert json.loads(result.stdout) == {"done": [0]}


def test_options_of_a_submission(langlauf: Commands) -> None:
    """Flags reach the job."""
    flags = ("--priority", "expedite", "--timeout-seconds", "2m", "--max-retries", "0", "--idempotency-key", "once")
    job = langlauf.json("submit", "value=1", *flags)
    assert (job["priority_class"], job["timeout_seconds"], job["max_retries"]) == ("expedite", 120, 0)
    assert langlauf.json("submit", "value=1", *flags)["job_id"] == job["job_id"]


def test_a_number_for_a_text_is_refused_with_the_quotes_that_the_shell_needs(langlauf: Commands) -> None:
    """The word as it has to be typed; other mistakes are not explained that way."""
    refused = langlauf.run("submit", "-a", "hang", "label=7", exit_code=2).stderr
    assert "label must be a text" in refused
    assert """7 was read as JSON; as a text it is written 'label="7"'""" in refused
    assert "was read as JSON" not in langlauf.run("submit", "-a", "steps", "count=many", exit_code=2).stderr


def test_status_for_people_and_for_machines(langlauf: Commands) -> None:
    """The same facts, once as lines and once as JSON."""
    job = langlauf.json("submit", "-a", "fail", "how=bug", "--wait", exit_code=1)
    shown = langlauf.run("status", job["job_id"]).stdout
    assert all(part in shown for part in (job["job_id"], "failed", "a mistake"))
    assert langlauf.json("status", job["job_id"])["status"] == "failed"


def test_what_a_retry_need_not_compute_again_is_said(langlauf: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    """In the status and after the end, unless the input must change; a job without parts has no such line."""
    job = langlauf.json("submit", "-a", "halfway", "--wait", exit_code=1)
    kept = f"{job['kept_parts']} of 3"
    assert (job["kept_parts"], job["total_parts"]) == (2, 3)
    assert f"Kept parts    {kept}" in langlauf.run("status", job["job_id"]).stdout
    assert f"does not compute again: {kept}" in langlauf.run("watch", job["job_id"], exit_code=1).stderr
    print_outcome(msgspec.convert(job | {"retry_hint": "check_input_and_retry"}, JobState))
    told = capsys.readouterr().err
    assert "check the input" in told
    assert "does not compute again" not in told
    other = langlauf.json("submit", "-a", "fail", "how=bug", "--wait", exit_code=1)
    assert "Kept parts" not in langlauf.run("status", other["job_id"]).stdout


def test_watch_json_is_the_final_state(langlauf: Commands) -> None:
    """A machine that watches gets the end as one document."""
    assert langlauf.json("watch", langlauf.submit("value=1"))["result"]["value"] == 1


def test_result_by_job_and_by_result(langlauf: Commands, client: Client) -> None:
    """Both ids lead to the result; a partial's id to the newest, or to exactly that one."""
    job = langlauf.json("submit", "-a", "steps", "count=2", "--wait")
    final = {"done": [0, 1]}
    assert json.loads(langlauf.run("result", job["job_id"]).stdout) == final
    first = client.job(job["job_id"]).snapshots()[0].result_id
    assert json.loads(langlauf.run("result", first).stdout) == final
    exact = langlauf.run("result", first, "--view", "requested")
    assert json.loads(exact.stdout) == {"done": [0]}
    assert "partial result 1" in exact.stderr
    assert langlauf.json("result", first)["projection_mode"] == "latest"


def test_result_into_a_file(langlauf: Commands, tmp_path: Path) -> None:
    """A result goes to a file, and no file is left where there is no result."""
    job = langlauf.json("submit", "value=1", "--wait")
    result = langlauf.run("result", job["job_id"], "--output", str(tmp_path / "result.json"))
    assert result.stdout == ""
    assert json.loads((tmp_path / "result.json").read_text())["value"] == 1
    langlauf.run("result", "nothing", "--output", str(tmp_path / "none.json"), exit_code=4)
    assert not (tmp_path / "none.json").exists()


def test_result_of_a_job_that_has_none(langlauf: Commands, until_step: Callable[[str, str], None]) -> None:
    """The reason is told: not yet, failed, or canceled."""
    job = langlauf.submit("-a", "hang")
    until_step(job, "hanging")
    assert "no result yet" in langlauf.run("result", job, exit_code=1).stderr
    langlauf.run("cancel", job, "--wait")
    assert "been canceled without a result" in langlauf.run("result", job, exit_code=3).stderr
    failed = langlauf.json("submit", "-a", "fail", "how=bug", "--wait", exit_code=1)
    assert "a mistake" in langlauf.run("result", failed["job_id"], exit_code=1).stderr


def test_partial_result_of_a_failed_job(langlauf: Commands) -> None:
    """What a job made before it failed can still be had, and is called partial."""
    job = langlauf.json("submit", "-a", "fail", "how=bug", "partials=2", "--wait", exit_code=1)
    result = langlauf.run("result", job["job_id"])
    assert json.loads(result.stdout) == {"before": 1}
    assert "the job is failed" in result.stderr


def test_cancel(langlauf: Commands, until_step: Callable[[str, str], None]) -> None:
    """Stopping is told, waited for on request, and harmless when it comes too late."""
    job = langlauf.submit("-a", "hang")
    until_step(job, "hanging")
    said = langlauf.run("cancel", job, "--reason", "enough").stderr
    assert "is stopping" in said or "Canceled by user: enough" in said, "it may have ended before the answer"
    assert langlauf.json("cancel", job, "--wait")["cancel_reason"] == "enough"
    done = langlauf.json("submit", "value=1", "--wait")
    assert "had ended before" in langlauf.run("cancel", done["job_id"]).stderr


def test_retry(langlauf: Commands) -> None:
    """A new job is made of an old one, and can be watched at once."""
    job = langlauf.json("submit", "-a", "steps", "--wait")["job_id"]
    assert langlauf.json("retry", job, "--no-resume")["retry_of"] == job
    other = langlauf.json("submit", "value=1", "--wait")["job_id"]
    assert '"value": 1' in langlauf.run("retry", other, "--watch").stdout
    assert langlauf.run("retry", other).stdout.strip() != other


def test_jobs(langlauf: Commands) -> None:
    """The list is newest first, filtered and limited; a machine gets one array."""
    assert "No jobs" in langlauf.run("jobs").stderr
    ids = [langlauf.json("submit", f"value={number}", "--wait")["job_id"] for number in range(3)]
    shown = langlauf.run("jobs").stdout.splitlines()
    assert shown[0].split() == ["JOB", "ANALYSIS", "LABEL", "STATE", "DONE", "QUEUED", "STEP", "OR", "ERROR"]
    assert [line.split()[0] for line in shown[1:]] == ids[::-1]
    assert [job["job_id"] for job in langlauf.json("jobs", "--limit", "2")] == ids[:0:-1]
    assert "--limit shows more" in langlauf.run("jobs", "--limit", "2").stderr
    assert "--limit" not in langlauf.run("jobs", "--limit", "3").stderr
    assert langlauf.json("jobs", "--status", "failed") == []
    assert len(langlauf.json("jobs", "--analysis", "echo", "--status", "completed")) == 3
    assert [job["job_id"] for job in langlauf.json("jobs", "--q", ids[1])] == [ids[1]]


def test_errors(langlauf: Commands) -> None:
    """Failures by cause, the most frequent first, with the line that raised them and the newest job."""
    assert "No job failed" in langlauf.run("errors").stderr
    bugs = [langlauf.json("submit", "-a", "fail", "how=bug", "--wait", exit_code=1)["job_id"] for _ in range(2)]
    other = langlauf.json("submit", "-a", "fail", "how=permanent", "--wait", exit_code=1)["job_id"]
    shown = langlauf.run("errors").stdout
    assert shown.startswith("2 x internal  fail\n    RuntimeError: a mistake\n    raised in fail, sample_app.py:")
    assert f"langlauf status --trace {bugs[1]}" in shown
    found = langlauf.json("errors")
    assert [(one["error_code"], one["job_ids"]) for one in found["groups"]] == [
        ("internal", bugs[::-1]),
        ("unknown_region", [other]),
    ]
    assert (found["failures"], found["complete"]) == (3, True)
    assert found["groups"][1]["messages"] == ["the region is unknown"]
    assert "The first 1 of 2 causes" in langlauf.run("errors", "--limit", "1").stderr
    assert langlauf.json("errors", "--analysis", "echo")["groups"] == []


def test_notifications(langlauf: Commands) -> None:
    """A job's messages are listed, by channel where one is named."""
    job = langlauf.json("submit", "value=1", "--wait")["job_id"]
    assert "async.job.completed" in langlauf.run("notifications", job).stdout
    assert [one["channel"] for one in langlauf.json("notifications", job)] == ["in_app"]
    assert langlauf.json("notifications", job, "--channel", "email") == []
    assert "No notifications" in langlauf.run("notifications", job, "--channel", "webhook").stderr


def test_inbox(langlauf: Commands) -> None:
    """What has ended is listed with what is new; what is marked is new no more, and is not marked again."""
    assert "No messages yet" in langlauf.run("inbox").stderr
    jobs = [langlauf.json("submit", f"value={number}", "--wait")["job_id"] for number in range(2)]
    shown = langlauf.run("inbox")
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:]] == jobs[::-1]
    assert shown.stdout.count(" new ") == 2
    assert "--mark-read" in shown.stderr
    assert [one["job_id"] for one in langlauf.json("inbox", "--limit", "1", "--mark-read")] == [jobs[1]]
    assert [one["job_id"] for one in langlauf.json("inbox", "--unread")] == [jobs[0]]
    assert "Marked as read; 0 unread." in langlauf.run("inbox", "--unread", "--mark-read").stderr
    assert "No unread messages." in langlauf.run("inbox", "--unread").stderr
    assert [one["unread"] for one in langlauf.json("inbox")] == [False, False]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script is the shell's, and its last line says how to install it."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_LANGLAUF_COMPLETE" in result.stdout
    assert f"langlauf completion {shell}" in result.stdout.splitlines()[-1]


def test_client_settings_are_flags_of_every_client_command() -> None:
    """Each command that talks to a server can be told which one, for whom and with what key."""
    for name in ("submit", "status", "watch", "result", "cancel", "retry", "jobs", "notifications", "inbox"):
        shown = CliRunner().invoke(main, [name, "--help"]).stdout
        assert all(flag in shown for flag in ("--url", "--org", "--key", "--json"))
    assert {"url", "org", "key"} <= {setting.name for setting in SETTINGS}


def test_status_shows_where_a_job_went_wrong(langlauf: Commands) -> None:
    """What was raised and where, then the whole trace; a job that has not failed has none."""
    failed = langlauf.submit("-a", "fail", "how=bug")
    watched = langlauf.run("watch", failed, exit_code=1)
    assert f"langlauf status --trace {failed}" in watched.stderr
    shown = langlauf.run("status", failed, "--trace").stdout
    assert "Cause         RuntimeError: a mistake\nRaised in     fail, sample_app.py:" in shown
    assert 'raise RuntimeError("a mistake")\nRuntimeError: a mistake' in shown
    assert "Traceback" not in langlauf.run("status", failed).stdout
    done = json.loads(langlauf.run("run", "value=1", "--json").stdout)["job_id"]
    assert "the job has not failed" in langlauf.run("status", done, "--trace").stderr


def test_a_job_can_be_submitted_for_later(langlauf: Commands, client: Client) -> None:
    """By a time of the clock, by RFC 3339, or by a delay; a time that is none is a usage error."""
    for words in (("--at", "tomorrow 6:00"), ("--at", "2096-01-31T06:00:00+01:00"), ("--delay", "10m")):
        job = client.job(langlauf.run("submit", "value=later", "--allow-duplicate", *words).stdout.strip())
        assert job.status().phase == "scheduled"
        job.cancel()
    assert "tomorrow 6:00" in langlauf.run("submit", "value=1", "--at", "soon", exit_code=2).stderr
    langlauf.run("submit", "value=1", "--at", "18:30", "--delay", "1m", exit_code=2)
    assert "start_by" in langlauf.run("submit", "value=1", "--start-by", "2001-01-01 00:00", exit_code=2).stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18:30", "2026-03-10 18:30"),
        ("6:00", "2026-03-11 06:00"),
        ("today 6:00", "2026-03-10 06:00"),
        ("Tomorrow 23:59", "2026-03-11 23:59"),
        ("2027-01-31 06:00", "2027-01-31 06:00"),
        ("23:59:30", "2026-03-10 23:59:30"),
        ("2h", "2026-03-10 14:00"),
    ],
)
def test_times_without_a_zone_are_of_this_machine(text: str, expected: str) -> None:
    """A time alone is the next one."""
    now = datetime(2026, 3, 10, 12, 0).astimezone()
    assert parse_time(text, now) == datetime.fromisoformat(expected).astimezone()


def test_defaults_are_shown_as_a_flag_takes_them() -> None:
    """A week is 7d, and a list of durations has commas."""
    shown = " ".join(CliRunner().invoke(main, ["serve", "--help"]).stdout.split())
    assert "[ASYNC_JOB_RESULTS_RETENTION_SECONDS] Default: 7d." in shown
    assert "Default: 5s,5m,30m,2h,5h,10h,14h,20h,1d." in shown
    assert "0.5s" in shown


def test_a_worker_has_no_processes_of_an_api() -> None:
    """A flag that would do nothing is refused, with the command that has it in the help of the setting."""
    done = run_command("worker", SAMPLE_APP, "--processes", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option '--processes'" in done.stderr
    assert "--processes" in run_command("serve", "--help").stdout


def test_watch_rings_the_bell_at_the_end(langlauf: Commands) -> None:
    """Once, on standard error; without the flag never."""
    job = langlauf.submit("value=1")
    assert langlauf.run("watch", job, "--notify").stderr.count("\a") == 1
    assert "\a" not in langlauf.run("watch", job).stderr
