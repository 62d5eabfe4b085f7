"""Commands on the store, beside a running server: sweep, migrate, openapi, worker."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import apsw
import httpx2

from tests.support.processes import eventually
from tests.support.server import ROOT, SAMPLE_APP, command, environment, run_command, serving


def _serve(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a server that must not start, in a process of its own: if it did, it would take this one along."""
    return subprocess.run(
        command(*words), cwd=ROOT, env=environment(**settings), capture_output=True, text=True, check=False
    )


def test_the_sweep_takes_back_what_a_killed_server_left(tmp_path: Path) -> None:
    """It prints how many and which; a second one finds nothing."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"
    with serving(store, settings={"LANGLAUF_LEASE_SECONDS": "1"}) as server:
        body = {"analysis": "gate", "path": str(gate), "options": {"async_mode": {"requested": True}}}
        job = httpx2.post(f"{server.url}/analyze", json=body, trust_env=False, timeout=60).json()["job"]
        while job["status"] != "running":
            job = httpx2.get(f"{server.url}{job['status_url']}", trust_env=False, timeout=60).json()["job"]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()

    def sweep() -> Any:
        return json.loads(run_command("sweep", "--store", str(store)).stdout)

    swept = eventually(lambda: (found := sweep())["updated_count"] and found)  # once the lease of the dead server ended
    assert swept == {"updated_count": 1, "updated_jobs": [job["job_id"]]}
    assert sweep() == {"updated_count": 0, "updated_jobs": []}


def test_migrate_brings_a_store_up_to_date(tmp_path: Path) -> None:
    """A new file gets every step, an up-to-date one none; only its owner may read it."""
    store = tmp_path / "new" / "store.db"
    first = json.loads(run_command("migrate", "--store", str(store), "--json").stdout)
    assert first["applied"][0] == "0001_store"
    again = json.loads(run_command("migrate", "--store", str(store), "--json").stdout)
    assert (again["applied"], again["schema"]) == ([], first["schema"])
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_store_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    """Exit code 1 with what to do, and the file stays as it is."""
    store = tmp_path / "store.db"
    run_command("migrate", "--store", str(store))
    connection = apsw.Connection(str(store))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = store.read_bytes()
    for words in (("migrate",), ("sweep",), ("serve", SAMPLE_APP, "--port", "0")):
        run = _serve if words[0] == "serve" else run_command
        refused = run(*words, "--store", str(store))
        assert refused.returncode == 1, refused.stderr
        assert "newer program" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert store.read_bytes() == before


def test_a_bad_setting_stops_the_program(tmp_path: Path) -> None:
    """Exit code 1 and one line that names it, for a bad value, an unknown name and a store that cannot be."""
    for settings, said in (
        ({"ASYNC_JOB_RESULTS_RETENTION_SECONDS": "soon"}, "ASYNC_JOB_RESULTS_RETENTION_SECONDS"),
        ({"LANGLAUF_MAX_RUNING": "1"}, "did you mean LANGLAUF_MAX_RUNNING"),
        ({"LANGLAUF_STORE": "memory://", "ASYNC_JOBS_STORE_FILE": "x.db"}, "both set"),
        ({"LANGLAUF_STORE": "oracle://db"}, "not supported"),
        ({"LANGLAUF_STORE": str(tmp_path)}, "folder"),
        ({"LANGLAUF_HOST": "0.0.0.0"}, "--allow-open"),  # noqa: S104 - that it is refused is the point
    ):
        words = ("serve", SAMPLE_APP, "--port", "0") if "LANGLAUF_HOST" in settings else ("sweep",)
        stopped = (_serve if words[0] == "serve" else run_command)(*words, **settings)
        assert stopped.returncode == 1, stopped.stderr
        assert said in stopped.stderr
        assert "Traceback" not in stopped.stderr


def test_an_application_that_cannot_be_loaded_is_named() -> None:
    """A wrong module, a wrong name and something else than an application."""
    for target in ("no_such_module:app", "tests.support.sample_app:nothing", "tests.support.sample_app:Path"):
        stopped = run_command("openapi", target)
        assert (stopped.returncode, target in stopped.stderr) == (1, True)


def test_openapi_prints_the_description() -> None:
    """Of the bundled analyses, or of an application."""
    document = json.loads(run_command("openapi").stdout)
    assert document["openapi"].startswith("3.1")
    assert "AddressInput" in document["components"]["schemas"]
    assert "gate" in run_command("openapi", SAMPLE_APP).stdout


def test_a_worker_alone_runs_what_a_server_accepts(tmp_path: Path) -> None:
    """Two processes on one file: the server has no worker of its own; SIGTERM ends both with exit code 0."""
    store = tmp_path / "store.db"
    with serving(store, settings={"LANGLAUF_WORKERS": "0"}) as server:
        worker = subprocess.Popen(
            command("worker", SAMPLE_APP, "--store", str(store)),
            cwd=ROOT,
            env=environment(LANGLAUF_POLL_SECONDS="0.1"),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            body = {"analysis": "echo", "value": 1}
            response = httpx2.post(f"{server.url}/analyze", json=body, timeout=60, trust_env=False)
            assert (response.status_code, response.json()["result"]["value"]) == (200, 1)
        finally:
            os.kill(worker.pid, signal.SIGTERM)
            _, log = worker.communicate(timeout=60)
        assert worker.returncode == 0, log
