"""What a new user types first: run, open, a shortened id, and the help."""

import sys
import time
from itertools import takewhile
from pathlib import Path

import pytest

from langlauf.cli.options import format_time
from langlauf.client import Client
from langlauf.domain.instant import from_text
from tests.cli.conftest import Commands
from tests.support.server import run_command


def test_run_prints_the_result(langlauf: Commands) -> None:
    """One command submits, shows progress and page on standard error, and prints the result on standard output."""
    done = langlauf.run("run", "steps", "count=2")
    assert '"done"' in done.stdout
    assert "2 partials" in done.stderr
    assert "langlauf result" not in done.stderr
    assert "/jobs/" in done.stderr
    assert langlauf.json("run", "echo", "value=1")["status"] == "completed"
    failed = langlauf.run("run", "fail", "how=permanent", exit_code=1)
    assert (failed.stdout, "Failed: " in failed.stderr) == ("", True)


def test_submit_names_the_page(langlauf: Commands, client: Client) -> None:
    """The address stands on standard error, so that standard output is the id alone."""
    submitted = langlauf.run("submit", "value=1")
    job = client.job(submitted.stdout.strip())
    assert f"its page: {job.url}" in submitted.stderr
    assert job.url in langlauf.run("status", job.job_id).stdout


def test_open_starts_the_browser(langlauf: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of the job is opened, and its address printed."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nimport sys\nopen({str(opened)!r}, 'w').write(sys.argv[1])\n")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)  # read again what BROWSER says
    job = langlauf.submit("value=1")
    shown = langlauf.run("open", job)
    assert shown.stdout.strip().endswith(f"/jobs/{job}")
    assert opened.read_text() == shown.stdout.strip()


def test_an_id_may_be_shortened(langlauf: Commands) -> None:
    """The beginning of an id is enough where it belongs to one job; else the candidates are listed."""
    jobs = [langlauf.submit(f"value={number}") for number in range(2)]
    same = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*jobs, strict=True)))
    short = jobs[0][: len(same) + 1]
    assert langlauf.json("status", short)["job_id"] == jobs[0]
    assert langlauf.json("watch", short.upper())["job_id"] == jobs[0]
    assert '"value": 0' in langlauf.run("result", short).stdout
    refused = langlauf.run("status", same[:8], exit_code=2).stderr
    assert all(job in refused for job in jobs)
    assert "there is no" in langlauf.run("status", "ffffffff", exit_code=4).stderr.lower()


def test_jobs_of_a_range(langlauf: Commands) -> None:
    """As on the page, a list may be limited to the last hours."""
    job = langlauf.submit("value=1")
    assert job in langlauf.run("jobs", "--since", "24h").stdout
    assert langlauf.json("jobs", "--since", "0.001") == []


def test_help_has_four_groups() -> None:
    """Commands are listed by what they are about, those for people first."""
    shown = run_command("--help").stdout
    titles = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[-4:] == ["Jobs", "Results", "Server", "Store"]


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are told in the zone of the machine, which is named."""
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        assert format_time(from_text("2026-07-01T10:00:00Z")) == "2026-07-01 12:00:00 CEST"
    finally:
        monkeypatch.undo()
        time.tzset()
