"""The worker's side of its supervisor."""

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
#: How long the end of the supervisor may take, and how long it may take to end a process.
_DEATH_SECONDS = 2.0
_KILL_SECONDS = 0.5
#: A supervisor that takes nothing for so long is replaced.
_STUCK_SECONDS = 5.0


class SupervisedProcess:
    """A process that the supervisor holds. `ended` tells how it ended: an exit code, minus a signal, or None."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def end(self, status: int | None) -> None:
        """It has ended; whoever waits for its start need not any more."""
        self.ended.set_result(status)
        if not self.started.done():
            self.started.set_result(None)


class Supervisor:
    """Starts the supervisor when it is first needed, and again where it went away. Nothing here waits for it."""

    def __init__(self, listed: Sequence[str] = (), lifeline: int | None = None) -> None:
        #: stays open until the supervisor has ended all it holds
        self._lifeline = () if lifeline is None else (lifeline,)
        #: variables of the environment that its processes see beside the usual ones
        self._listed = listed
        self._numbers = itertools.count(1)
        self._supervised: dict[int, SupervisedProcess] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._rest = b""
        #: requests that it has not taken yet, with their descriptors, and since when it takes nothing
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self._stuck_since: float | None = None

    def start(self, command: Sequence[str], descriptors: Sequence[int]) -> SupervisedProcess:
        """Starts a process with three descriptors: its line, its output, its errors."""
        kept = SupervisedProcess(next(self._numbers))
        self._supervised[kept.number] = kept
        self._ask({"start": kept.number, "command": list(command)}, [os.dup(one) for one in descriptors])
        return kept

    def allow(self, processes: Sequence[SupervisedProcess], seconds: float | None) -> None:
        """Lets processes run for so long; past that they are ended, even if this worker cannot say so any more."""
        if self._connection is not None and processes:
            until = None if seconds is None else since_boot() + seconds
            self._ask({"until": {kept.number: until for kept in processes}})

    def end(self, kept: SupervisedProcess) -> None:
        """Ends a process and everything it started, at once."""
        if self._connection is not None and not kept.ended.done():
            self._ask({"end": kept.number})

    async def ended(self, kept: SupervisedProcess) -> None:
        """Wait for the end of a process; kill it from here where the supervisor is slow."""
        await asyncio.wait({kept.ended}, timeout=_KILL_SECONDS)
        if not kept.ended.done():
            _kill(kept)

    async def started(self, kept: SupervisedProcess) -> None:
        """Returns when a process runs; a supervisor that cannot say so in time is replaced."""
        await asyncio.wait({kept.started}, timeout=_STUCK_SECONDS)
        if not kept.started.done():
            self._lost("it does not start processes")

    def watch(self, allowed: tuple[float, float] | None) -> None:
        """This worker's event loop is alive: it must say so again in time, or it is interrupted, and then ended."""
        if allowed is not None:
            interrupt, end = allowed
            self._ask({"watch": end, "interrupt": interrupt})
        elif self._connection is not None:
            self._ask({"watch": None})

    async def close(self) -> None:
        """Ends the supervisor, and with it every process."""
        process = self._process
        self._hang_up()
        deadline = since_boot() + _DEATH_SECONDS
        while process is not None and process.poll() is None:
            if since_boot() > deadline:
                process.kill()
            await asyncio.sleep(_LOOK_SECONDS)  # a child gives no signal that an event loop could share

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        if self._stuck_since is not None and since_boot() - self._stuck_since > _STUCK_SECONDS:
            self._lost("it does not read what it is told")
        self._waiting.append((json.dumps(request).encode() + b"\n", list(descriptors)))
        try:
            if self._connection is None:
                self._connection = self._begin()
        except OSError as error:
            self._lost(str(error))
        else:
            if len(self._waiting) == 1:
                self._send()

    def _begin(self) -> socket.socket:
        mine, other = socket.socketpair()
        mine.setblocking(False)
        with other:
            # Run by its path and without site packages: it is there in a moment, and needs nothing of ours.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                env=child_environment(os.environ, self._listed),  # its own, and that of every process it starts
                pass_fds=self._lifeline,
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(mine, self._hear)
        return mine

    def _send(self) -> None:
        """Sends what waits, as far as it is taken now; the rest when there is room."""
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

    def _hear(self) -> None:
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
            self._take(json.loads(line))

    def _take(self, answer: dict[str, Any]) -> None:
        if "started" in answer:
            if kept := self._supervised.get(answer["started"]):
                kept.pid = answer["pid"]
                kept.started.set_result(None)
        elif kept := self._supervised.pop(answer["ended"], None):
            kept.end(answer["status"])
            if "error" in answer:
                log_event(LogEvent.PROCESS_DIED, logging.ERROR, reason=answer["error"])

    def _lost(self, reason: str) -> None:
        """The supervisor is gone or of no use: its processes go with it, and the next request starts another one."""
        log_event(LogEvent.KEEPER_LOST, logging.ERROR, reason=reason)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._connection)
            loop.remove_writer(self._connection)
            self._connection.close()
        for _, descriptors in self._waiting:
            _close_all(descriptors)
        self._waiting.clear()
        self._connection, self._process, self._rest, self._stuck_since = None, None, b"", None
        kept, self._supervised = self._supervised, {}
        for one in kept.values():
            _kill(one)
            one.end(None)


def _kill(kept: SupervisedProcess) -> None:
    if kept.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(kept.pid, signal.SIGKILL)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


#: A `*` at the end stands for any rest.
PASSED_ON = (
    # to find programs, libraries and folders
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
    *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TMPDIR", "TEMP", "TMP", "XDG_*", "HOSTNAME"),
    # language and time
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR"),
    # threads, cores, memory and devices of libraries that compute
    *("OMP_*", "OPENBLAS_*", "GOTO_*", "MKL_*", "BLIS_*", "VECLIB_*", "NUMEXPR_*", "NUMBA_*", "KMP_*", "MALLOC_*"),
    *("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "MPLBACKEND", "MPLCONFIGDIR"),
    # the way to other machines, and whom to trust there
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    # tracing, and what the bundled analyses read
    *("OTEL_*", "LANGLAUF_ADDRESS_TABLE"),
)
#: Names of the list above that may hold a key.
_WITHHELD = ("OTEL_*HEADERS",)
#: A web address with a password in it.
_PASSWORD = re.compile(r"://[^\s/@]*:[^\s/@]+@")


def child_environment(environment: Mapping[str, str], listed: Sequence[str]) -> dict[str, str]:
    """What of an environment is passed on. `listed` is the operator's own list (`LANGLAUF_CHILD_ENV`)."""
    return {name: value for name, value in environment.items() if _is_passed_on(name, value, listed)}


def _is_passed_on(name: str, value: str, listed: Sequence[str]) -> bool:
    if name in listed:
        return True
    if name in SECRETS:  # only under its full name: a pattern is not meant to have it
        return False
    if _fits(name, listed):
        return True
    return _fits(name, PASSED_ON) and not _fits(name, _WITHHELD) and _PASSWORD.search(value) is None


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
