"""Commands in this process for what they print, and as processes of their own where signals and terminals matter."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.client import Client
from tests.support.server import ServerProcess, command, environment


class Commands:
    """`langlauf …` against the test's server and org."""

    def __init__(self, server: ServerProcess, org: str) -> None:
        self.flags = ("--url", server.url, "--org", org)

    def run(self, *words: str, exit_code: int = 0, stdin: str | None = None) -> Result:
        """Runs a command to its end; its exit code must be the expected one."""
        result = CliRunner().invoke(main, [*words, *self.flags], input=stdin, prog_name="langlauf")
        assert result.exit_code == exit_code, result.output
        return result

    def json(self, *words: str, exit_code: int = 0) -> Any:
        """Runs a command with `--json`: standard output is one JSON document, whatever is on standard error."""
        return json.loads(self.run(*words, "--json", exit_code=exit_code).stdout)

    def submit(self, *words: str) -> str:
        """The id of a new job."""
        return self.run("submit", *words).stdout.strip()

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[str]:
        """Starts a command as a process."""
        env = environment(TERM="xterm", COLUMNS="100")
        return subprocess.Popen(command(*words, *self.flags), env=env, text=True, **streams)


@pytest.fixture
def langlauf(server: ServerProcess, org: str) -> Commands:
    """The commands of one org."""
    return Commands(server, org)


@pytest.fixture
def client(server: ServerProcess, org: str) -> Iterator[Client]:
    """A client for the same org, to prepare and to check."""
    with Client(server.url, org) as made:
        yield made


@pytest.fixture
def until_step(client: Client) -> Callable[[str, str], None]:
    """Waits until a job says that it is at a step."""

    def wait(job_id: str, step: str) -> None:
        assert any(state.step == step for state in client.job(job_id).states(timeout=60))

    return wait
