"""`langlauf worker --metrics-port`: what a process without an API tells, and to whom."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.support.keys import bearer
from tests.support.live import live
from tests.support.metrics_scrape import read_scrape
from tests.support.sample_app import app as sample
from tests.support.server import ROOT, SAMPLE_APP, command, environment

_WHERE = re.compile(r"on (http://\S+)/metrics")


@contextmanager
def _worker(store: Path, **settings: str) -> Iterator[str]:
    """A worker that tells its metrics on a free port, by its address; it stops in an orderly way."""
    quick = {"LANGLAUF_SHUTDOWN_GRACE": "0", "LANGLAUF_METRICS_PORT": "0"}
    process = subprocess.Popen(
        command("worker", SAMPLE_APP, "--store", str(store)),
        cwd=ROOT,
        env=environment(**quick, **settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield next(found[1] for line in process.stderr if (found := _WHERE.search(line)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_worker_tells_its_metrics_and_nothing_else(tmp_path: Path) -> None:
    """What it ran is counted by it, and not by the server that took the job; there is no API and no page."""
    with live(tmp_path, sample, LANGLAUF_WORKERS="0") as server, _worker(tmp_path / "store.db") as url:
        before = read_scrape(server.http.get("/metrics").text)
        job_id = server.submit("echo", value="Bern")["job_id"]
        assert server.wait(job_id)["status"] == "completed"
        with httpx2.Client(base_url=url, trust_env=False, timeout=60) as http:
            assert http.get("/health").json()["status"] == "up"
            assert http.get("/ready").json()["status"] == "ready"
            told = read_scrape(http.get("/metrics").text)
            for path in ("/", "/analyze", "/analyze/jobs", "/ops", "/openapi.json", "/static/x"):
                assert http.get(path).json()["error"] == "not_found", path
        assert told.by("langlauf_jobs_ended_total", "analysis", "status") == {"echo completed": 1}
        assert told.value("langlauf_workers", state="working") == 1
        added = read_scrape(server.http.get("/metrics").text).since(before)
        assert (added.value("langlauf_jobs_ended_total"), added.value("langlauf_submissions_total")) == (0, 1)


def test_it_asks_for_the_operators_token(tmp_path: Path) -> None:
    """As the server does, where there is one: then it may be told to listen to other machines."""
    token, everywhere = "a-long-operators-token", "0.0.0.0"  # noqa: S104
    with (
        _worker(tmp_path / "store.db", API_AUTH_TOKEN=token, LANGLAUF_HOST=everywhere) as url,
        httpx2.Client(base_url=url.replace(everywhere, "127.0.0.1"), trust_env=False, timeout=60) as http,
    ):
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", headers=bearer(token)).status_code == 200
        assert http.get("/health").status_code == 200


def test_it_is_not_open_to_others_without(tmp_path: Path) -> None:
    """It does not start, says what to do, and has not touched the store."""
    store = tmp_path / "store.db"
    words = command("worker", SAMPLE_APP, "--store", str(store), "--metrics-port", "0", "--host", "0.0.0.0")  # noqa: S104
    done = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, store.exists()) == (1, False)
    assert "API_AUTH_TOKEN" in done.stderr
    assert "127.0.0.1" in done.stderr
