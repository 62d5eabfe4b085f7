"""The real program as a process: started, ready when it prints its URL, stopped; and commands in this process."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from langlauf.cli.main import main

ROOT = Path(__file__).parents[2]
SAMPLE_APP = "tests.support.sample_app:app"
#: Variables of tests that their analyses read as well.
TEST_NAMES = "LANGLAUF_TEST_*"
_OURS = ("LANGLAUF_", "ASYNC_JOB", "API_AUTH_TOKEN")
#: Quick in what a test would have to wait for. The lease is long: on a busy machine a worker may pause for seconds.
_QUICK = {
    "LANGLAUF_LEASE_SECONDS": "60",
    "LANGLAUF_SWEEP_SECONDS": "0.25",
    "LANGLAUF_SHUTDOWN_GRACE": "0",
    "LANGLAUF_RETRY_BASE": "0.01",
    "LANGLAUF_MAX_RUNNING": "64",
}


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a program under test: no inherited settings, and this checkout on the path."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return {**outside, "PYTHONPATH": path, "LANGLAUF_CHILD_ENV": TEST_NAMES, **extra}


def command(*words: str) -> list[str]:
    """Return the command line of `langlauf …`."""
    return [sys.executable, "-m", "langlauf", *words]


def run_command(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `langlauf …` to its end. Where signals or terminals matter, start a process instead."""
    done = CliRunner().invoke(main, words, prog_name="langlauf", env=settings)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


class ServerProcess:
    """A running server. `log` has its output."""

    #: the line that says where it listens
    ready = re.compile(r"Langlauf serves .* on (http://\S+)")

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self.url = self._read_url()
        self._reader = threading.Thread(target=self._read_rest, daemon=True)
        self._reader.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.join()
        return code

    def join(self) -> None:
        """Read the rest of the log of a server that has ended."""
        self._reader.join()

    def _read_url(self) -> str:
        for line in self._lines():
            if match := self.ready.search(line):
                return match[1]
        raise AssertionError("the server did not start:\n" + "".join(self.log))

    def _read_rest(self) -> None:
        for _ in self._lines():
            pass

    def _lines(self) -> Iterator[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            yield line


@contextmanager
def serving(
    store: Path | str,
    *,
    port: int = 0,
    app: str = SAMPLE_APP,
    settings: Mapping[str, str] | None = None,
    own_session: bool = False,
) -> Iterator[ServerProcess]:
    """Start a server over a store, ready for requests; stop it at the end.

    In a session of its own, Linux may schedule it as one among all sessions, as it does a service.
    """
    process = subprocess.Popen(
        command("serve", app, "--port", str(port), "--store", str(store)),
        cwd=ROOT,
        env=environment(**{**_QUICK, **(settings or {})}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=own_session,
    )
    try:
        server = ServerProcess(process)
        yield server
        if process.poll() is None:
            assert server.stop() == 0, "".join(server.log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()


@contextmanager
def working(
    store: Path | str, *, app: str = SAMPLE_APP, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a worker without a server over a store; stop it at the end if it still runs."""
    process = subprocess.Popen(
        command("worker", app, "--store", str(store)),
        cwd=ROOT,
        env=environment(**{**_QUICK, **(settings or {})}),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any("Langlauf runs jobs of" in line for line in process.stderr), "the worker did not start"
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=60)
            assert process.returncode == 0, log
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
