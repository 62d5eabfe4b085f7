"""The first minute: a server with jobs, and its page in a browser."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from langlauf.client import Client
from tests.support.server import command, environment


def browser(tmp_path: Path) -> tuple[str, Path]:
    """Return what BROWSER is set to, and the pipe into which it writes the address that it is given."""
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    program = tmp_path / "browser"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen({str(opened)!r}, 'w').write(sys.argv[1])\n")
    program.chmod(0o755)
    return f"{program} %s", opened


def test_demo_starts_three_jobs_and_opens_one(tmp_path: Path) -> None:
    """Ctrl-C ends the server and its jobs, and removes its store."""
    program, opened = browser(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = environment(BROWSER=program, TMPDIR=str(temporary))
    process = subprocess.Popen(command("demo", "--port", "0"), env=env, stderr=subprocess.PIPE, text=True)
    try:
        url = opened.read_text()
        base = url.partition("/jobs/")[0]
        with Client(base, timeout=60) as client:
            jobs = {one.job_id: one.analysis for one in client.jobs()}
            assert sorted(jobs.values()) == ["address", "address", "clustering"]
            assert url.rpartition("/")[2] in jobs
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
        assert process.returncode == 0
        assert len(re.findall(rf"{base}/jobs/", shown)) == 3
        assert shown.count("(fails)") == 1
        assert not list(temporary.glob("langlauf-demo-*"))
    finally:
        process.kill()
        process.wait()


def test_serve_opens_the_start_page(tmp_path: Path) -> None:
    """With a flag; the address is one that a browser of this machine reaches."""
    program, opened = browser(tmp_path)
    words = ("serve", "tests.support.sample_app:app", "--port", "0", "--open", "--store", str(tmp_path / "store.db"))
    process = subprocess.Popen(command(*words), env=environment(BROWSER=program), stderr=subprocess.PIPE, text=True)
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", opened.read_text())
    finally:
        process.kill()
        process.communicate()
