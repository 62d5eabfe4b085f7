"""The ready-made files name what there is: settings, commands and programs; the proxy passes streams on as they come.

Programs that are not part of the project (nginx, systemd) judge their own files where they are at hand.
"""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx2
import pytest
import yaml
from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.settings import BY_ENVIRONMENT, load_settings
from tests.docs.pages import ROOT
from tests.support.live import GATES, live, sample_app
from tests.support.postgres import execute, fetch, own_server

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
#: What others read from the environment.
_EXEC = re.compile(r"^Exec\w+=/opt/langlauf/bin/langlauf (.+)$", re.MULTILINE)


def _compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text("utf-8"))
    return loaded


def _variables(file: Path) -> dict[str, str]:
    pairs = re.findall(r"^#?([A-Z_]+)=(.*)$", file.read_text("utf-8"), re.MULTILINE)
    return dict(pairs)


def _is_command(words: list[str]) -> None:
    """The command exists, and takes these words."""
    command = main.get_command(click.Context(main), words[0])
    assert command is not None
    context = command.make_context(words[0], list(words[1:]), resilient_parsing=False)
    context.close()


def test_every_setting_that_is_named_exists() -> None:
    """Also those in comments; and what the example sets is taken."""
    named = set()
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        named |= set(re.findall(r"\b(?:LANGLAUF|ASYNC_JOBS?)_[A-Z_]+\b", file.read_text("utf-8")))
    assert named - set(BY_ENVIRONMENT) == set()
    assert len(named) > 8
    given = {name: value for name, value in _variables(DEPLOY / "langlauf.env").items() if value and value != "whsec_"}
    assert load_settings(given).public_url == "https://jobs.example.org"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_what_there_is_and_lets_it_finish(unit: Path) -> None:
    """Its commands exist; it is killed no sooner than attempts may take to stop; no child's death is its own."""
    text = unit.read_text("utf-8")
    commands = _EXEC.findall(text)
    assert commands
    for line in commands:
        _is_command(line.split())
    settings = load_settings({})
    stop = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) > settings.shutdown_grace + settings.cancel_grace
    assert "KillMode=mixed" in text
    assert "OOMPolicy=continue" in text
    if (judge := shutil.which("systemd-analyze")) is not None:
        said = subprocess.run([judge, "verify", str(unit)], capture_output=True, text=True, check=False).stderr
        left = [line for line in said.splitlines() if unit.name in line and "is not executable" not in line]
        assert left == []


def test_the_container_installs_what_is_locked_and_runs_as_nobody_in_particular() -> None:
    """Every file that it copies is there; it does not run as root; what it starts is ours."""
    text = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
    assert "--require-hashes -r requirements.lock" in text
    assert re.search(r"^USER \d{4,}$", text, re.MULTILINE)
    assert 'ENTRYPOINT ["langlauf"]' in text


def test_the_services_of_compose_fit_together() -> None:
    """Commands exist, files that are mounted are there, others that are waited for exist, and stops have their time."""
    services = _compose()["services"]
    settings = load_settings({})
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), volume
        if service["image"] != "langlauf":
            continue
        _is_command(service["command"])
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        assert int(service["stop_grace_period"].removesuffix("s")) > settings.shutdown_grace + settings.cancel_grace
        assert set(service["environment"]) <= {*BY_ENVIRONMENT, "POSTGRES_PASSWORD"}
        assert service["environment"]["POSTGRES_PASSWORD"] == ""  # analyses would see it
    assert services["api"]["environment"]["LANGLAUF_WORKERS"] == "0"


def _login_statements(password: str) -> list[str]:
    """What makes the login of compose, as the image's psql runs it."""
    text = (DEPLOY / "postgres" / "login.sql").read_text("utf-8").replace("\\getenv password POSTGRES_PASSWORD\n", "")
    text = re.sub("^--.*$", "", text, flags=re.MULTILINE).replace(":'password'", f"'{password}'")
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def test_the_login_of_compose_is_no_superuser() -> None:
    """The image makes POSTGRES_USER a superuser: that is not the login of Langlauf, which login.sql makes."""
    services = _compose()["services"]
    store = urlsplit(re.sub(r"\$\{[^}]*\}", "word", services["api"]["environment"]["LANGLAUF_STORE"]))
    assert services["postgres"]["environment"].get("POSTGRES_USER", "postgres") != store.username
    assert any(
        volume.endswith(":/docker-entrypoint-initdb.d/login.sql:ro") for volume in services["postgres"]["volumes"]
    )
    role, database, *_ = _login_statements("word")
    assert role.startswith(f"CREATE ROLE {store.username} LOGIN NOSUPERUSER ")
    assert database == f"CREATE DATABASE {store.path[1:]} OWNER {store.username}"


def test_the_login_of_compose_is_enough() -> None:
    """It migrates, and serves from what it made; it cannot do what a superuser can."""
    with own_server() as server:
        for statement in _login_statements("word"):
            execute(server.url(), statement)
        url = server.url("langlauf", "langlauf")
        ran = CliRunner().invoke(main, ["migrate", "--store", url])
        assert ran.exit_code == 0, ran.output
        assert fetch(url, "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user") == [
            (False, False)
        ]
        assert fetch(server.url(), "SELECT rolpassword IS NULL FROM pg_authid WHERE rolname = 'postgres'") == [(True,)]


@contextmanager
def _nginx(program: str, folder: Path, upstream: int) -> Iterator[str]:
    """nginx with our file, but for ports and paths of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = (DEPLOY / "proxy" / "nginx.conf").read_text("utf-8")
    text = text.replace("server api:8080;", f"server 127.0.0.1:{upstream};").replace("listen 8080;", f"listen {port};")
    text = text.replace("/dev/stdout", str(folder / "access.log"))
    places = "".join(
        f"{name}_temp_path {folder / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(text.replace("http {", f"http {{\n{places}", 1), "utf-8")
    words = [
        program,
        "-c",
        str(folder / "nginx.conf"),
        "-e",
        str(folder / "error.log"),
        "-g",
        f"daemon off; pid {folder}/pid;",
    ]
    process = subprocess.Popen(words)
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        assert process.poll() is None, (folder / "error.log").read_text("utf-8")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def test_the_proxy_passes_streams_on_as_they_come(tmp_path: Path) -> None:
    """Events arrive while the job still runs; what only operators may see is not there."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        text = (DEPLOY / "proxy" / "nginx.conf").read_text("utf-8")
        assert "proxy_http_version 1.1;" in text
        assert "location = /metrics" in text
        return
    asynchronous = {"async_mode": {"requested": True}}
    body = {"analysis": "gated", "gate": "proxied", "partials": 2, "options": asynchronous}
    (tmp_path / "store").mkdir()
    with (
        live(tmp_path / "store", sample_app()) as server,
        _nginx(program, tmp_path, int(server.url.rpartition(":")[2])) as url,
        httpx2.Client(base_url=url, timeout=60, trust_env=False) as http,
    ):
        job_id = http.post("/analyze", json=body).json()["job"]["job_id"]
        kinds = []
        with http.stream("GET", f"/analyze/jobs/{job_id}/events", headers={"Accept": "text/event-stream"}) as stream:
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                if kinds.count("job.partial") == body["partials"]:
                    GATES.open("proxied")  # all of that came while the job waited at its gate
        assert kinds[-1] == "job.completed"
        assert http.get("/metrics").status_code == 404
        assert http.get("/health").status_code == 200
