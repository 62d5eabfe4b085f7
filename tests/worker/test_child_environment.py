"""What analyses see of the environment: what it takes to run, and none of the operator's secrets."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from langlauf import Langlauf
from langlauf.bootstrap import Runtime
from langlauf.settings import SECRETS
from langlauf.worker.processes.supervisor import child_environment
from tests.support.running_app import done, result, run
from tests.support.server import environment, serving
from tests.worker.environment_app import app

SECRET = "hunter2secret"
OPERATORS = {
    "API_AUTH_TOKEN": SECRET,
    "LANGLAUF_SMTP": f"smtp://user:{SECRET}@mail.example:587",
    "LANGLAUF_MAIL_FROM": "jobs@example.org",
    "LANGLAUF_WEBHOOK_SECRET": "whsec_aHVudGVyMnNlY3JldGh1bnRlcjJzZWNyZXQ=",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "DATABASE_URL": f"postgresql://app:{SECRET}@db/app",
}


@pytest.mark.parametrize(
    ("name", "value", "listed", "passed"),
    [
        ("PATH", "/bin", "", True),
        ("LC_ALL", "C", "", True),
        ("OMP_NUM_THREADS", "1", "", True),
        ("OTEL_SERVICE_NAME", "jobs", "", True),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=x", "", False),
        ("HTTPS_PROXY", "http://proxy:3128", "", True),
        ("HTTPS_PROXY", "http://user:word@proxy:3128", "", False),
        ("HTTPS_PROXY", "http://user:word@proxy:3128", "HTTPS_PROXY", True),
        ("DATABASE_URL", "x", "", False),
        ("DATABASE_URL", "x", "DATABASE_URL", True),
        ("MY_THING", "x", "OTHER,MY_*", True),
        ("PGPASSWORD", "x", "", False),
        ("API_AUTH_TOKEN", "x", "*", False),
        ("LANGLAUF_STORE", "x", "LANGLAUF_*", False),
        ("LANGLAUF_KEY", "x", "LANGLAUF_KEY", True),
    ],
)
def test_a_variable_is_passed_on_or_not(name: str, value: str, listed: str, passed: bool) -> None:
    """The usual ones unless a password is in them, those that are listed, and a secret only by its full name."""
    found = child_environment({name: value}, tuple(listed.split(",")))
    assert found == ({name: value} if passed else {})


def test_every_secret_of_the_settings_is_known() -> None:
    """The store's URL may have a password in it."""
    names = {"API_AUTH_TOKEN", "LANGLAUF_SMTP", "LANGLAUF_WEBHOOK_SECRET", "LANGLAUF_STORE", "LANGLAUF_KEY"}
    assert names == SECRETS


def test_a_process_of_a_plain_function_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its own environment nor in that of the program that started it; what is listed is there."""
    for name, value in {**OPERATORS, "MY_REGION": "north", "MY_OTHER": "south"}.items():
        monkeypatch.setenv(name, value)

    async def body(app: Langlauf, runtime: Runtime) -> None:
        found = await result(runtime, await done(app, runtime, "snoop"))
        assert SECRET not in str({name: value for name, value in found.items() if name != "/proc of above"})
        assert not set(OPERATORS) & set(found)
        assert (found["MY_REGION"], "MY_OTHER" in found) == ("north", False)
        assert found["PATH"] == os.environ["PATH"]

    run(app, tmp_path, body, LANGLAUF_CHILD_ENV="MY_REGION")


_FORGETS = """
import os, pathlib
from langlauf.settings import forget_secrets, load_settings
settings = load_settings()
forget_secrets(settings)
print(settings.auth_token, settings.key, sorted(set(os.environ) & {"API_AUTH_TOKEN", "LANGLAUF_KEY", "LANGLAUF_STORE"}))
print(pathlib.Path("/proc/self/environ").read_bytes())
"""


def test_secrets_leave_the_environment_once_they_are_read(tmp_path: Path) -> None:
    """Also where the system shows it; those that analyses may see stay."""
    extra = {"API_AUTH_TOKEN": SECRET, "LANGLAUF_STORE": f"postgresql://u:{SECRET}@db/x", "LANGLAUF_KEY": "llk_x"}
    ran = subprocess.run(
        [sys.executable, "-c", _FORGETS],
        env=environment(**extra, LANGLAUF_CHILD_ENV="LANGLAUF_KEY"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ran.stdout.splitlines()
    assert first == f"{SECRET} llk_x ['LANGLAUF_KEY']"
    assert SECRET not in second
    assert "LANGLAUF_KEY=llk_x" in second


_READS_AT_IMPORT = """
import os
from langlauf import Langlauf, PlainJob
app = Langlauf()
place = os.environ["DATABASE_URL"]

@app.analysis(max_retries=0)
def place_of(job: PlainJob) -> str:
    return place
"""


def test_a_variable_that_a_module_misses_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that reads it when it is imported cannot be loaded in a process; listed, it can."""
    (tmp_path / "reads_at_import.py").write_text(_READS_AT_IMPORT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///x")
    import reads_at_import  # type: ignore[import-not-found]  # written above

    async def fails(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "place_of")).job
        assert (job.error_message or "").endswith("pass it on to analyses: LANGLAUF_CHILD_ENV=DATABASE_URL")

    async def works(app: Langlauf, runtime: Runtime) -> None:
        assert await result(runtime, await done(app, runtime, "place_of")) == "sqlite:///x"

    run(reads_at_import.app, tmp_path, fails)
    run(reads_at_import.app, tmp_path, works, LANGLAUF_CHILD_ENV="DATABASE_URL")


def test_analyses_of_a_server_find_no_secret(tmp_path: Path) -> None:
    """In neither kind of analysis, nor in the processes above; the server itself still knows its token."""
    settings = {
        **OPERATORS,
        "LANGLAUF_STORE": f"{tmp_path}/{SECRET}.db",  # the flag goes before it
        "LANGLAUF_CHILD_ENV": "DATABASE_URL",
    }
    operators = set(OPERATORS) & SECRETS | {"LANGLAUF_STORE"}
    with serving(tmp_path / "store.db", app="tests.worker.environment_app:app", settings=settings) as server:
        head = {"Authorization": f"Bearer {SECRET}", "X-Org-Id": "default-org"}
        for analysis in ("snoop", "snoop_on_loop"):
            answer = httpx2.post(
                f"{server.url}/analyze", json={"analysis": analysis}, headers=head, timeout=60, trust_env=False
            )
            found = answer.json()["result"]
            assert not operators & set(found)
            assert not [name for name in operators if f"{name}={settings[name]}" in str(found)]
            assert found["DATABASE_URL"] == OPERATORS["DATABASE_URL"]
        assert "AWS_SECRET_ACCESS_KEY" in found  # the server may need it for its blobs
        assert httpx2.post(f"{server.url}/analyze", json={}, timeout=60, trust_env=False).status_code == 401
