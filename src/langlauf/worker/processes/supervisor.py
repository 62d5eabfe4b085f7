"""The client of the supervisor in a worker: starts, extends and ends child processes, and learns when one has ended."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from langlauf.settings import SECRETS
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.supervisor_program import since_boot

_PROGRAM = Path(__file__).with_name("supervisor_program.py")
_READ = 65_536
_LOOK_SECONDS = 0.01
#: Timeouts of the end of the supervisor, and of the end of a process.
_DEATH_SECONDS = 2.0
_KILL_SECONDS = 0.5
#: A supervisor that reads nothing for this long is replaced.
_STUCK_SECONDS = 5.0
#: `*` at the end of a name matches any rest.
PASSED_ON = (
    # to find programs, libraries and folders
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
    *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TMPDIR", "TEMP", "TMP", "XDG_*", "HOSTNAME"),
    # language and time
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR"),
    # threads, cores, memory and devices of libraries that compute
    *("OMP_*", "OPENBLAS_*", "GOTO_*", "MKL_*", "BLIS_*", "VECLIB_*", "NUMEXPR_*", "NUMBA_*", "KMP_*", "MALLOC_*"),
    *("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "MPLBACKEND", "MPLCONFIGDIR"),
    # proxies and certificates
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    # tracing, and what the bundled analyses read
    *("OTEL_*", "LANGLAUF_ADDRESS_TABLE"),
)
#: Exceptions from the list above, which may hold a key.
_WITHHELD = ("OTEL_*HEADERS",)
#: A URL with a password.
_PASSWORD = re.compile(r"://[^\s/@]*:[^\s/@]+@")


class SupervisedProcess:
    """A process of the supervisor. `ended` holds its exit code, minus its signal, or None where that is unknown."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def set_ended(self, status: int | None) -> None:
        """Note that it has ended, also for callers that wait for its start."""
        self.ended.set_result(status)
        if not self.started.done():
            self.started.set_result(None)


class Supervisor:
    """Starts the supervisor program on demand, and replaces one that is gone. Requests do not wait for it."""

    def __init__(self, listed: Sequence[str] = (), lifeline: int | None = None) -> None:
        #: a pipe that stays open until the supervisor has ended all processes
        self._lifeline = () if lifeline is None else (lifeline,)
        #: environment variables that its processes get beside the usual ones
        self._listed = listed
        self._numbers = itertools.count(1)
        self._supervised: dict[int, SupervisedProcess] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._rest = b""
        #: requests that it has not read yet, with their descriptors, and since when it reads nothing
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self._stuck_since: float | None = None

    def start(self, command: Sequence[str], descriptors: Sequence[int]) -> SupervisedProcess:
        """Start a process with three descriptors: its socket, standard output and standard error."""
        process = SupervisedProcess(next(self._numbers))
        self._supervised[process.number] = process
        self._ask({"start": process.number, "command": list(command)}, [os.dup(one) for one in descriptors])
        return process

    def allow(self, processes: Sequence[SupervisedProcess], seconds: float | None) -> None:
        """Let processes run for this long; then the supervisor ends them, even if this worker is gone or blocked."""
        if self._connection is not None and processes:
            until = None if seconds is None else since_boot() + seconds
            self._ask({"until": {process.number: until for process in processes}})

    def end(self, process: SupervisedProcess) -> None:
        """End a process and everything it started, at once."""
        if self._connection is not None and not process.ended.done():
            self._ask({"end": process.number})

    async def ended(self, process: SupervisedProcess) -> None:
        """Wait for the end of a process; kill it from here where the supervisor is slow."""
        await asyncio.wait({process.ended}, timeout=_KILL_SECONDS)
        if not process.ended.done():
            _kill(process)

    async def started(self, process: SupervisedProcess) -> None:
        """Wait until a process runs; a supervisor that does not confirm it in time is replaced."""
        await asyncio.wait({process.started}, timeout=_STUCK_SECONDS)
        if not process.started.done():
            self._lost("it does not start processes")

    def watch(self, deadlines: tuple[float, float] | None) -> None:
        """Send a heartbeat of the event loop with its deadlines: without another one it is interrupted, then ended."""
        if deadlines is not None:
            interrupt, end = deadlines
            self._ask({"watch": end, "interrupt": interrupt})
        elif self._connection is not None:
            self._ask({"watch": None})

    async def close(self) -> None:
        """End the supervisor, and with it every process."""
        process = self._process
        self._disconnect()
        deadline = since_boot() + _DEATH_SECONDS
        while process is not None and process.poll() is None:
            if since_boot() > deadline:
                process.kill()
            await asyncio.sleep(_LOOK_SECONDS)  # an event loop cannot share SIGCHLD

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        if self._stuck_since is not None and since_boot() - self._stuck_since > _STUCK_SECONDS:
            self._lost("it does not read requests")
        self._waiting.append((json.dumps(request).encode() + b"\n", list(descriptors)))
        try:
            if self._connection is None:
                self._connection = self._start_program()
        except OSError as error:
            self._lost(str(error))
        else:
            if len(self._waiting) == 1:
                self._send()

    def _start_program(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            # Run by its path and without site packages, so that it starts fast.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=child_environment(os.environ, self._listed),  # also that of every process it starts
                pass_fds=self._lifeline,
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(ours, self._receive)
        return ours

    def _send(self) -> None:
        """Send what is queued without blocking, and the rest when there is room."""
        connection, loop = self._connection, asyncio.get_running_loop()
        if connection is None:
            return
        try:
            while self._waiting:
                line, descriptors = self._waiting[0]
                sent = socket.send_fds(connection, [line], descriptors)
                self._stuck_since = None
                _close_all(descriptors)
                self._waiting[0] = (line[sent:], [])
                if sent == len(line):
                    self._waiting.popleft()
        except BlockingIOError:
            self._stuck_since = self._stuck_since or since_boot()
            loop.add_writer(connection, self._send)
        except OSError as error:
            self._lost(str(error))
        else:
            loop.remove_writer(connection)

    def _receive(self) -> None:
        if self._connection is None:
            return
        try:
            data = self._connection.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error))
            return
        if not data:
            self._lost("it ended")
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, reply: dict[str, Any]) -> None:
        if "started" in reply:
            if process := self._supervised.get(reply["started"]):
                process.pid = reply["pid"]
                process.started.set_result(None)
        elif process := self._supervised.pop(reply["ended"], None):
            process.set_ended(reply["status"])
            if "error" in reply:
                log_event(LogEvent.PROCESS_DIED, logging.ERROR, reason=reply["error"])

    def _lost(self, reason: str) -> None:
        """Drop a supervisor that is gone or stuck, with its processes; the next request starts another one."""
        log_event(LogEvent.SUPERVISOR_LOST, logging.ERROR, reason=reason)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._connection)
            loop.remove_writer(self._connection)
            self._connection.close()
        for _, descriptors in self._waiting:
            _close_all(descriptors)
        self._waiting.clear()
        self._connection, self._process, self._rest, self._stuck_since = None, None, b"", None
        supervised, self._supervised = self._supervised, {}
        for one in supervised.values():
            _kill(one)
            one.set_ended(None)


def _kill(process: SupervisedProcess) -> None:
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def child_environment(environment: Mapping[str, str], listed: Sequence[str]) -> dict[str, str]:
    """Return the variables that child processes get; `listed` is the list of the operator (`LANGLAUF_CHILD_ENV`)."""
    return {name: value for name, value in environment.items() if _is_passed_on(name, value, listed)}


def _is_passed_on(name: str, value: str, listed: Sequence[str]) -> bool:
    if name in listed:
        return True
    if name in SECRETS:  # only by its full name: a pattern must not pass on a secret by accident
        return False
    if _matches(name, listed):
        return True
    return _matches(name, PASSED_ON) and not _matches(name, _WITHHELD) and _PASSWORD.search(value) is None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
