"""The side-effect ledger: what analyses did, recorded outside of the store. One line per fact, appended at once."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import alive

LEDGER_NAME = "LANGLAUF_TEST_LEDGER"
_LOOK_SECONDS = 0.01
#: An attempt began, returned, was refused a write, or ignored its cancel.
START, END, REFUSED, UNHEARD = "start", "end", "refused", "unheard"
#: An attempt was cancelled and noticed it.
STOPPED = "stopped"
#: A chunk was begun, or its result is stored.
COMPUTED, KEPT = "computed", "kept"
#: An attempt began while the process of the one before it still ran.
SHARED = "shared"


class Line(NamedTuple):
    """A fact about an attempt, its process, and its time by a clock that all processes share."""

    kind: str
    job_id: str
    attempt: int
    pid: int
    at: float
    #: the chunk, if the line is about one
    chunk: int = 0


def append_line(kind: str, job_id: str, attempt: int, chunk: int = 0) -> None:
    """Append a line, called by an analysis. A single append is whole or absent, even if the process is killed."""
    line = f"{kind} {job_id} {attempt} {os.getpid()} {time.monotonic()!r} {chunk}\n"
    file = os.open(os.environ[LEDGER_NAME], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def append_start(job_id: str, attempt: int) -> None:
    """Record the start of an attempt, and whether the one before it still runs in another process."""
    before = [line for line in Ledger(Path(os.environ[LEDGER_NAME])).lines if line.job_id == job_id]
    if any(line.kind == START and line.pid != os.getpid() and alive(line.pid) for line in before):
        append_line(SHARED, job_id, attempt)
    append_line(START, job_id, attempt)


class Ledger:
    """Reads the ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[Line] = []
        self._latest: dict[str, Line] = {}
        self._ended: set[str] = set()
        self._read = 0
        path.touch()

    @property
    def lines(self) -> list[Line]:
        """Return all lines so far."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in map(_parsed, whole.decode().splitlines()):
            self._lines.append(line)
            if line.kind == START:
                self._latest[line.job_id] = line
            elif line.kind == END:
                self._ended.add(line.job_id)
        return self._lines

    def latest(self) -> dict[str, Line]:
        """Return the newest start of each job."""
        assert self.lines is self._lines
        return self._latest

    def ended(self) -> set[str]:
        """Return the jobs of which some attempt returned, whether or not its result was stored."""
        assert self.lines is self._lines
        return self._ended

    def running(self, pid: int) -> list[Line]:
        """Return the attempts that a process began and did not end."""
        began = {(line.job_id, line.attempt): line for line in self.lines if line.pid == pid and line.kind == START}
        ended = {(line.job_id, line.attempt) for line in self.lines if line.pid == pid and line.kind == END}
        return [line for key, line in began.items() if key not in ended]

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for lines that make the condition true; False on a timeout."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True


def _parsed(line: str) -> Line:
    kind, job_id, attempt, pid, at, chunk = line.split()
    return Line(kind, job_id, int(attempt), int(pid), float(at), int(chunk))
