"""Every command that the README and the reference show is run, in order, and does what is shown there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.docs.pages import ROOT, blocks, read
from tests.docs.shell import Step, read_curl, shown_facts, shown_headers, shown_names, shown_status, steps_of
from tests.support.server import ServerProcess, command, environment

DOCUMENTED_URL = "http://127.0.0.1:8080"
#: A variable of a session, and the member of the answer before it that a person copies.
COPIED = {"JOB": "job_id", "RESULT": "result_id"}


class Session:
    """A person at a shell, who reads the answers and copies ids out of them."""

    def __init__(self, url: str, http: httpx2.Client) -> None:
        self.url = url
        self.http = http
        self.variables: dict[str, str] = {}
        self.answer = ""

    def do(self, step: Step) -> None:
        """Runs one command, and compares what the README shows with what came."""
        line = step.command.replace(DOCUMENTED_URL, self.url)
        assignment = re.match(r"^(\w+)=", line)
        if assignment:
            self.copy(assignment[1])
            return
        for name, value in self.variables.items():
            line = line.replace(f"${name}", value)
        assert "$" not in line, f"an unknown variable in: {line}"
        if line.startswith("curl "):
            self.curl(line, step.output)
        elif line.startswith("langlauf "):
            self.langlauf(line, step.output)
        else:
            raise AssertionError(f"no test runs: {line}")

    def copy(self, name: str) -> None:
        """Take an id out of the last answer, and wait for a job to end, as a reader who types would."""
        match = re.search(rf'"{COPIED[name]}":"([^"]+)"', self.answer)
        self.variables[name] = match[1] if match else self.answer.strip()
        if name == "JOB":
            self.wait(self.variables[name])

    def wait(self, job_id: str) -> None:
        """Returns when the job has ended."""
        for _ in range(100):
            answer = self.http.get(f"/analyze/jobs/{job_id}", params={"wait": 5})
            assert answer.status_code == 200, answer.text
            if answer.json()["job"]["finished_at"]:
                return
        raise AssertionError(f"{job_id} does not end")

    def curl(self, line: str, output: str) -> None:
        """Sends what `curl` would send."""
        wanted = read_curl(line)
        answer = self.http.request(wanted.method, wanted.url, headers=wanted.headers, content=wanted.body)
        self.answer = answer.text
        assert wanted.shows_headers == bool(shown_status(output)), f"-i and the output do not fit: {line}"
        assert answer.status_code == (shown_status(output) or 200), answer.text
        for name in shown_headers(output):
            assert name in answer.headers, (line, name)
        for fact in shown_facts(output):
            assert fact in answer.text, (line, fact)
        for name in shown_names(output):
            assert f'"{name}":' in answer.text, (line, name)

    def langlauf(self, line: str, output: str) -> None:
        """Runs the command."""
        words = shlex.split(line)[1:]
        done = subprocess.run(
            command(*words), env=environment(LANGLAUF_URL=self.url), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.answer = done.stdout
        for shown in output.splitlines():
            assert "…" in shown or shown in done.stdout.splitlines(), (line, shown)


def _steps(page: str) -> list[Step]:
    return [step for block in blocks(page, "console") for step in steps_of(block.text)]


@pytest.mark.parametrize(
    ("page", "least", "copied"), [("README.md", 3, {"JOB"}), ("docs/http_api.md", 11, {"JOB", "RESULT"})]
)
def test_the_sessions_of_the_documents_work(bundled_url: str, page: str, least: int, copied: set[str]) -> None:
    """Every `curl` and every `langlauf` that is shown, in order, against a server as `make run` starts it."""
    steps = _steps(page)
    with httpx2.Client(base_url=bundled_url, timeout=60, trust_env=False) as http:
        session = Session(bundled_url, http)
        for step in steps:
            session.do(step)
    assert set(session.variables) == copied
    assert sum(step.command.startswith(("curl ", "langlauf ")) for step in steps) >= least


@pytest.mark.parametrize(
    ("page", "statuses", "headers", "facts"), [("README.md", 1, 3, 9), ("docs/http_api.md", 2, 4, 20)]
)
def test_the_sessions_show_what_came(page: str, statuses: int, headers: int, facts: int) -> None:
    """The outputs are long enough to compare: statuses, headers and members are found in them."""
    outputs = [step.output for step in _steps(page)]
    assert sum(shown_status(output) is not None for output in outputs) >= statuses
    assert sum(len(shown_headers(output)) for output in outputs) >= headers
    assert sum(len(shown_facts(output)) for output in outputs) >= facts


def test_the_readme_installs_in_two_ways() -> None:
    """The only other commands: from the package index, and in a clone."""
    lines = [line for block in blocks("README.md", "bash", "sh", "shell") for line in block.text.splitlines()]
    commands = [line.partition("#")[0].strip() for line in lines]
    assert commands == ["pip install 'langlauf[analyses]'", "langlauf demo", "langlauf serve", "make run", "make test"]


def test_the_package_installs_and_serves(tmp_path: Path) -> None:
    """`pip install` of this checkout, into an empty folder, gives the program with all that it reads at run time."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    how = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(tmp_path / "site")]
    subprocess.run([*pip, *how, str(ROOT)], check=True, capture_output=True, timeout=100)
    installed = {**environment(), "PYTHONPATH": str(tmp_path / "site")}
    program = [sys.executable, "-m", "langlauf", "serve", "--port", "0", "--store", str(tmp_path / "store.db")]
    process = subprocess.Popen(program, cwd=tmp_path, env=installed, stderr=subprocess.PIPE, text=True)
    try:
        server = ServerProcess(process)
        assert httpx2.get(f"{server.url}/", trust_env=False, timeout=60).status_code == 200
        assert server.stop() == 0
    finally:
        process.kill()
        process.communicate()


def test_the_picture_is_on_the_first_screen() -> None:
    """A visitor sees a job before the first command; the page stays short."""
    lines = read("README.md").splitlines()
    assert next(number for number, line in enumerate(lines) if line.startswith("![")) < 10
    assert len(lines) < 130


@pytest.mark.parametrize("command_line", ["curl --fail http://x", "curl -s", "curl http://x http://y"])
def test_a_curl_that_is_not_understood_is_not_skipped(command_line: str) -> None:
    """An unknown flag, no address or two of them stop the test instead of passing it."""
    with pytest.raises(ValueError, match="in: curl"):
        read_curl(command_line)


def test_curl_is_read_as_curl_reads_itself() -> None:
    """`--json` posts with its two headers, `-X` and `-H` are kept, quotes belong to the shell."""
    read = read_curl("""curl -s -i -X PUT "http://x/a?b=c" -H 'Prefer: respond-async' --json '{"q": "a b"}'""")
    assert read.method == "PUT"
    assert read.url == "http://x/a?b=c"
    assert read.headers == {
        "Prefer": "respond-async",
        "Content-Type": "application/json",
        "Accept": "application/json",
    }
    assert read.body == '{"q": "a b"}'
    assert read.shows_headers
    assert read_curl("curl http://x -d a=1").method == "POST"
    assert read_curl("curl http://x").method == "GET"
