"""Each exit code, and the next step that stands beside it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.client import Client
from tests.cli.conftest import Commands
from tests.support.server import ServerProcess, serving


def test_0_completed(langlauf: Commands) -> None:
    """A completed job is success, and its result is on standard output alone."""
    result = langlauf.run("submit", "--wait", "value=3")
    assert '"value": 3' in result.stdout
    assert "Completed" in result.stderr


def test_1_failed(langlauf: Commands) -> None:
    """A failed job tells its code, its message and what to do."""
    result = langlauf.run("submit", "-a", "fail", "how=permanent", "--wait", exit_code=1)
    assert result.stdout == ""
    assert "unknown_region: the region is unknown" in result.stderr
    assert "check the input" in result.stderr
    assert "langlauf open " in result.stderr


def test_1_failed_after_retries(langlauf: Commands) -> None:
    """A job that may work another time offers to be tried again."""
    result = langlauf.run("submit", "-a", "fail", "how=transient", "--max-retries", "1", "--wait", exit_code=1)
    assert "try again: langlauf retry" in result.stderr


def test_2_usage(langlauf: Commands) -> None:
    """What cannot be meant is refused before anything is sent."""
    assert "is not NAME=VALUE" in langlauf.run("submit", "echo", "value", exit_code=2).stderr
    assert "the analysis is echo" in langlauf.run("submit", "steps", "-a", "echo", exit_code=2).stderr
    assert "There is no analysis 'value'; known are echo" in langlauf.run("submit", "value", exit_code=2).stderr
    assert "did you mean steps?" in langlauf.run("run", "step", exit_code=2).stderr
    assert "is given twice" in langlauf.run("submit", "value=1", "value=2", exit_code=2).stderr
    assert "not JSON" in langlauf.run("submit", "--input", "{", exit_code=2).stderr
    assert "JSON object" in langlauf.run("submit", "--input", "[1]", exit_code=2).stderr
    assert "not both" in langlauf.run("submit", "--input", "{}", "--input-file", "-", exit_code=2).stderr
    assert "like 30m" in langlauf.run("watch", "job", "--timeout", "soon", exit_code=2).stderr
    assert "--wait" in langlauf.run("submit", "--timeout", "1", exit_code=2).stderr


def test_2_refused_input(langlauf: Commands) -> None:
    """Input that the server refuses is named by its field."""
    assert "bogus" in langlauf.run("submit", "bogus=1", exit_code=2).stderr


def test_3_canceled(langlauf: Commands) -> None:
    """Watching a canceled job ends with its own code."""
    job = langlauf.submit("-a", "hang")
    langlauf.run("cancel", job, "--reason", "enough", "--wait")
    assert "Canceled by user: enough" in langlauf.run("watch", job, exit_code=3).stderr


def test_3_canceled_because_it_was_too_late(langlauf: Commands, client: Client) -> None:
    """The reason is in words, although the record has a code."""
    langlauf.run("pause", client.submit(value=1).status().analysis, "--because", "the source is down")
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    job = langlauf.run("submit", "value=late", "--start-by", soon).stdout.strip()
    said = "it had not started by its latest start"
    assert f"Canceled by system: {said}." in langlauf.run("watch", job, exit_code=3).stderr
    assert said in langlauf.run("status", job).stdout
    assert said in langlauf.run("result", job, exit_code=3).stderr


def test_3_result_of_a_canceled_job(langlauf: Commands, tmp_path: Path, client: Client) -> None:
    """With and without a partial result, which is printed all the same."""
    empty, job = langlauf.submit("-a", "hang"), langlauf.submit("-a", "steps", f"gate={tmp_path / 'never'}")
    assert any(state.partial_count == 3 for state in client.job(job).states(timeout=60))
    for one in (empty, job):
        langlauf.run("cancel", one, "--wait")
    assert "canceled without a result" in langlauf.run("result", empty, exit_code=3).stderr
    assert '"done"' in langlauf.run("result", job, exit_code=3).stdout


def test_4_not_found(langlauf: Commands) -> None:
    """Whatever does not exist, or belongs to another org, is not found."""
    for words in (("status", "x"), ("watch", "x"), ("result", "x"), ("cancel", "x"), ("retry", "x")):
        assert "langlauf jobs" in langlauf.run(*words, exit_code=4).stderr
    langlauf.run("notifications", "x", exit_code=4)


def test_4_expired(tmp_path: Path) -> None:
    """What retention removed is gone, and can be computed again."""
    with serving(tmp_path / "store.db") as server:
        commands = Commands(server, "acme")
        job = commands.submit("value=3")
        commands.run("watch", job)
        words = ["cleanup", "--store-file", str(tmp_path / "store.db"), "--results-ttl-seconds", "0"]
        assert CliRunner().invoke(main, words).exit_code == 0
        refused = commands.run("result", job, exit_code=4)
        assert (refused.stdout, f"langlauf retry {job}" in refused.stderr) == ("", True)


def test_5_full(tmp_path: Path) -> None:
    """A full queue is waited for a little, as the server asks; then it says when to come back."""
    with serving(
        tmp_path / "store.db", settings={"LANGLAUF_MAX_WAITING_PER_ORG": "1", "LANGLAUF_WORKERS": "0"}
    ) as server:
        commands = Commands(server, "acme")
        commands.submit("value=1")
        refused = commands.run("submit", "value=2", exit_code=5)
        assert "1 job of this org is waiting" in refused.stderr
        assert "try again in" in refused.stderr


def test_5_unreachable() -> None:
    """Where no server answers, the way to start one is told."""
    result = CliRunner().invoke(main, ["status", "x", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 5
    assert "langlauf serve" in result.stderr


def test_6_not_allowed(tmp_path: Path) -> None:
    """Without the key nothing is told; with it everything works."""
    with serving(tmp_path / "store.db", settings={"API_AUTH_TOKEN": "secret"}) as server:
        words = ["jobs", "--url", server.url]
        refused = CliRunner().invoke(main, words)
        assert refused.exit_code == 6
        assert "--key" in refused.stderr
        assert CliRunner().invoke(main, [*words, "--key", "secret"]).exit_code == 0


def test_7_conflict(langlauf: Commands) -> None:
    """A duplicate names the job that exists, a retry too early what to do first."""
    job = langlauf.submit("-a", "hang")
    assert f"langlauf watch {job}" in langlauf.run("submit", "-a", "hang", exit_code=7).stderr
    assert "has not ended" in langlauf.run("retry", job, exit_code=7).stderr
    langlauf.submit("value=1", "--idempotency-key", "k")
    assert "--idempotency-key" in langlauf.run("submit", "value=2", "--idempotency-key", "k", exit_code=7).stderr
    langlauf.run("cancel", job)


def test_124_timeout(langlauf: Commands) -> None:
    """When the time is over, the job goes on and the command says how to come back."""
    result = langlauf.run("submit", "-a", "hang", "--wait", "--timeout", "0.2", exit_code=124)
    (job,) = langlauf.json("jobs")
    assert "goes on" in result.stderr
    assert f"langlauf watch {job['job_id']}" in result.stderr
    langlauf.run("watch", job["job_id"], "--timeout", "0.2s", exit_code=124)
    langlauf.run("cancel", job["job_id"])


def test_1_bad_setting(server: ServerProcess) -> None:
    """A setting that cannot work is named."""
    result = CliRunner().invoke(main, ["jobs", "--url", server.url.removeprefix("http://")])
    assert result.exit_code == 1
    assert "LANGLAUF_URL" in result.stderr


def test_hints_repeat_the_server_but_never_the_key(langlauf: Commands) -> None:
    """A command to type next goes to the same server and org, and shows no secret."""
    hint = langlauf.run("submit", "--key", "very-secret").stderr
    assert all(flag in hint for flag in langlauf.flags)
    assert "very-secret" not in hint
