"""An application under a server that is not ours: plain uvicorn as a process of its own, as somebody would start it."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.support.server import ROOT, environment

_RUNNING = re.compile(r"Uvicorn running on (http://\S+)")


class Foreign:
    """A server that runs, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._started.wait(30), "the server did not start"
        self.http = httpx2.Client(base_url=self._url(), timeout=60, trust_env=False)

    @property
    def text(self) -> str:
        """The whole log."""
        return "".join(self.log)

    def stop(self) -> None:
        """Ends it as an operator would."""
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) in (0, -signal.SIGTERM), self.text
        self._reader.join(10)

    def _url(self) -> str:
        match = _RUNNING.search(self.text)
        assert match is not None, self.text
        return match[1]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if _RUNNING.search(line):
                self._started.set()
        self._started.set()


@contextmanager
def uvicorn(target: str, folder: Path, *flags: str, **variables: str) -> Iterator[Foreign]:
    """Runs `module:app` from the folder or from the examples, on a free port."""
    words = [sys.executable, "-m", "uvicorn", target, "--port", "0", "--timeout-graceful-shutdown", "5", *flags]
    known = environment(LANGLAUF_STORE=str(folder / "store.db"), **variables)
    known["PYTHONPATH"] = os.pathsep.join((known["PYTHONPATH"], str(ROOT / "examples"), str(folder)))
    process = subprocess.Popen(words, cwd=folder, env=known, stderr=subprocess.PIPE, text=True)
    try:
        server = Foreign(process)
        yield server
        if process.poll() is None:
            server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
