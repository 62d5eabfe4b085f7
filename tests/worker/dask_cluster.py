"""A Dask cluster of the test's own: a scheduler and workers as processes, on the loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import eventually


class DaskCluster:
    """Starts and ends its processes; a test may kill some of them first."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        self._file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_scheduler("0")

    def start_scheduler(self, port: str) -> None:
        """A new scheduler, perhaps where another one was."""
        self._file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        eventually(lambda: self._address() is not None)

    @property
    def executor(self) -> str:
        """The cluster as a value of LANGLAUF_EXECUTOR."""
        return str(self._address()).replace("tcp://", "dask://")

    def _address(self) -> str | None:
        """What the scheduler wrote; nothing while it has not, or is about to."""
        try:
            return str(json.loads(self._file.read_text("utf-8"))["address"])
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    @property
    def log(self) -> str:
        """What its workers said."""
        return (self._folder / "worker.log").read_text("utf-8")

    def add_worker(self, *, threads: int = 2) -> None:
        """One more worker process, without a nanny that would start it again."""
        options = ("--no-nanny", "--no-dashboard", "--nthreads", str(threads), "--host", "127.0.0.1")
        folder = str(self._folder / f"worker-{len(self.workers)}")
        self.workers.append(self._start("worker", *options, "--local-directory", folder))

    def close(self) -> None:
        """Ends whatever runs."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self._file), *options]
        with (self._folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, **environment: str) -> Iterator[DaskCluster]:
    """A cluster for as long as the block lasts."""
    cluster = DaskCluster(folder, environment)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
