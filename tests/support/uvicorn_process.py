"""An application under plain uvicorn, as a separate process."""

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

from tests.support.server import ROOT, ServerProcess, environment


class UvicornProcess(ServerProcess):
    """uvicorn, and a client for what it serves."""

    ready = re.compile(r"Uvicorn running on (http://\S+)")

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._told = threading.Condition()
        super().__init__(process)
        self.http = httpx2.Client(base_url=self.url, timeout=60, trust_env=False)

    @property
    def text(self) -> str:
        """The whole log."""
        return "".join(self.log)

    def says(self, text: str) -> bool:
        """Whether the log has a text, or gets it soon: it is read beside what is answered."""
        with self._told:
            return self._told.wait_for(lambda: text in self.text, 10)

    def _lines(self) -> Iterator[str]:
        for line in super()._lines():
            with self._told:
                self._told.notify_all()
            yield line

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it with a signal, as an operator would."""
        self.http.close()
        code = super().stop(how)
        assert code in (0, -how), self.text
        return code


@contextmanager
def uvicorn(target: str, folder: Path, *flags: str, **variables: str) -> Iterator[UvicornProcess]:
    """Serve `module:app` from the folder or from the examples, on a free port."""
    words = [sys.executable, "-m", "uvicorn", target, "--port", "0", "--timeout-graceful-shutdown", "5", *flags]
    known = environment(LANGLAUF_STORE=str(folder / "store.db"), **variables)
    known["PYTHONPATH"] = os.pathsep.join((known["PYTHONPATH"], str(ROOT / "examples"), str(folder)))
    process = subprocess.Popen(words, cwd=folder, env=known, stderr=subprocess.PIPE, text=True)
    try:
        server = UvicornProcess(process)
        yield server
        if process.poll() is None:
            server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
