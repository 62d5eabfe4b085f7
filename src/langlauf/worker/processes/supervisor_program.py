"""The supervisor: a small program beside a worker that starts its processes and ends those that must not go on.

It is apart from the worker so that it still acts when the worker cannot: when the worker is gone, is paused, or its
interpreter is blocked. It is apart from the processes for the same reason. It imports the standard library alone and
is run by its path, so that it starts in a moment.

RequestSocket come on standard input, a socket, one JSON object per line:

    {"start": 7, "command": […]}     start process 7; three descriptors come along: its line, its output, its errors
    {"until": {"7": 812.5}}          process 7 may run until then, in seconds since the machine started; null: for ever
    {"end": 7}                       end process 7 and its whole group now
    {"watch": 4.5, "interrupt": 3}   the worker is alive; unless it says so again, interrupt it after 3 s, end it at 4.5
    {"watch": null}                  nothing depends on the worker now

Answers are {"started": 7, "pid": 4711} and {"ended": 7, "status": -9}. When the socket closes, or the worker is gone
although somebody else still has the socket, everything is ended.

What a process started stays with it, also in a session of its own: orphans come to the process, and when that is gone
to the supervisor, which ends whatever it does not know.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any

_MOST_DESCRIPTORS = 32
_READ = 65_536
#: How often the worker is looked at while it is watched, and how long it may take to die of the gentler signal.
_LOOK_SECONDS = 0.1
_ABORT_SECONDS = 1.0
#: A busy machine may let this program wait for so long between two looks, and all of it counts: leases go on meanwhile.
#: What is longer is a stop of the whole machine, after which the worker gets a moment to speak.
_LONGEST_DELAY = 1.0
_DEATH_SECONDS = 0.01
#: Interrupts code that blocks the event loop; ignored by programs that do not expect it.
_INTERRUPT = signal.SIGURG
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on orphans below this process become its children, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """The processes whose parent this one is, where the system tells."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:  # noqa: PTH123
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def since_boot() -> float:
    """Seconds since the machine started, time asleep included."""
    return time.clock_gettime(_CLOCK)


class RequestSocket:
    """The socket to the worker: lines and descriptors in the order they were sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.descriptors: list[int] = []
        self._rest = b""

    def read(self) -> list[dict[str, Any]] | None:
        """What has come, or None where the worker is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.connection, _READ, _MOST_DESCRIPTORS)
        except ConnectionError:
            return None
        self.descriptors += descriptors
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def answer(self, **facts: object) -> None:
        """Tells the worker; one that is gone is noticed when it is read from."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(facts).encode() + b"\n")


class WorkerWatch:
    """Counts down while the worker is silent. Time in which the worker or this program was stopped does not count."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.left: float | None = None
        self._interrupt_at = 0.0
        self._looked_at = since_boot()

    def set(self, seconds: float | None, interrupt: float = 0.0) -> None:
        """The worker spoke."""
        self.left = seconds
        self._interrupt_at = 0.0 if seconds is None else seconds - interrupt
        self._looked_at = since_boot()

    def look(self) -> signal.Signals | None:
        """What the worker is to be sent, which was silent for too long."""
        now = since_boot()
        passed, self._looked_at = now - self._looked_at, now
        if self.left is None or self._stopped():
            return None
        self.left -= min(passed, _LONGEST_DELAY)
        if self.left <= 0:
            return signal.SIGABRT
        return _INTERRUPT if self.left <= self._interrupt_at else None

    def _stopped(self) -> bool:
        """Whether somebody paused the worker: then it is not blocked, and will be refused when it goes on."""
        try:
            with open(f"/proc/{self.worker}/stat", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
                return status.read().rpartition(")")[2].split()[0] in "Tt"
        except OSError:
            return False


class SupervisorProgram:
    """Holds the processes of one worker."""

    def __init__(self, requests: RequestSocket, wakeups: int, worker: int) -> None:
        self._requests = requests
        self._wakeups = wakeups
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        #: those that were killed and are not gone yet
        self._dying: dict[int, subprocess.Popen[bytes]] = {}
        self._until: dict[int, float] = {}
        self._watch = WorkerWatch(worker)
        self._death = _death_of(worker)
        self._abort_at: float | None = None

    def run(self) -> None:
        """Serves until the worker is gone; then nothing of it is left."""
        line = self._requests.connection.fileno()
        while os.getppid() == self._watch.worker:
            ready, _, _ = select.select([line, self._wakeups, *self._death], [], [], self._patience())
            if self._wakeups in ready:
                os.read(self._wakeups, _READ)
            if line in ready:
                requests = self._requests.read()
                if requests is None:
                    break
                for request in requests:
                    self._serve(request)
            self._end_overdue()
            self._reap()
            self._guard()
        for number in list(self._processes):
            self._end(number)
        self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        """Waits for what was killed: the job of one of them may be started again as soon as this program is gone."""
        until = since_boot() + _ABORT_SECONDS
        while (self._dying or children()) and since_boot() < until:
            self._reap()
            if select.select([self._wakeups], [], [], _DEATH_SECONDS)[0]:
                os.read(self._wakeups, _READ)

    def _patience(self) -> float | None:
        waits = [until - since_boot() for until in self._until.values()]
        if self._watch.left is not None or self._abort_at is not None or not self._death:
            waits.append(_LOOK_SECONDS)
        return max(0.0, min(waits)) if waits else None

    def _serve(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request["start"], request["command"])
        elif "until" in request:
            for number, until in request["until"].items():
                self._set_until(int(number), until)
        elif "end" in request:
            self._end(request["end"])
        elif "watch" in request:
            self._watch.set(request["watch"], request.get("interrupt", 0.0))

    def _set_until(self, number: int, until: float | None) -> None:
        if until is None:
            self._until.pop(number, None)
        elif number in self._processes:
            self._until[number] = until

    def _start(self, number: int, command: list[str]) -> None:
        line, output, errors = self._requests.descriptors[:3]
        del self._requests.descriptors[:3]
        try:
            process = subprocess.Popen(  # noqa: S603 - the command is the worker's own
                [*command, str(line), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=(line,),
                start_new_session=True,
            )
        except OSError as error:
            self._requests.answer(ended=number, status=None, error=str(error))
        else:
            self._processes[number] = process
            self._requests.answer(started=number, pid=process.pid)
        finally:
            for descriptor in (line, output, errors):
                os.close(descriptor)

    def _reap(self) -> None:
        """Tells of processes that ended, and takes along what they left running."""
        for number, process in list(self._processes.items()):
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    continue
            self._end(number)
        for number, process in list(self._dying.items()):
            status = process.poll()
            if status is not None:
                del self._dying[number]
                self._requests.answer(ended=number, status=status)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Ends what ended processes had started; what those had started comes here next."""
        known = {process.pid for held in (self._processes, self._dying) for process in held.values()}
        for pid in children():
            if pid not in known:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _end_overdue(self) -> None:
        now = since_boot()
        for number in [number for number, until in self._until.items() if until <= now]:
            self._end(number)

    def _end(self, number: int) -> None:
        process = self._processes.pop(number, None)
        self._until.pop(number, None)
        if process is None:
            return
        # Before it is waited for: until then nobody else can have its number. It may take a while to be gone.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._dying[number] = process

    def _guard(self) -> None:
        """Ends a worker whose event loop is blocked past its lease: first with the signal that shows where."""
        if self._abort_at is not None:
            if since_boot() >= self._abort_at:
                self._signal_worker(signal.SIGKILL)
            return
        found = self._watch.look()
        if found is _INTERRUPT:
            self._signal_worker(_INTERRUPT)
        elif found is not None:
            print(  # noqa: T201 - this program has no logging; its standard error is the worker's
                f"langlauf: the event loop of worker process {self._watch.worker} is blocked past its lease; "
                "ending the process, its jobs will be run again. Call blocking code from a plain `def`.",
                file=sys.stderr,
                flush=True,
            )
            self._signal_worker(signal.SIGABRT)
            self._abort_at = since_boot() + _ABORT_SECONDS

    def _signal_worker(self, number: signal.Signals) -> None:
        if os.getppid() == self._watch.worker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._watch.worker, number)


def _death_of(pid: int) -> list[int]:
    """A descriptor that is readable once the process is gone; none where the system has no such thing."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


def main() -> None:
    """Runs until the worker is gone. Signals meant for the worker's group are the worker's business."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    wakeups, wake = os.pipe()
    os.set_blocking(wake, False)  # as signal.set_wakeup_fd wants it
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    adopt_orphans()
    SupervisorProgram(RequestSocket(socket.socket(fileno=0)), wakeups, int(sys.argv[1])).run()


if __name__ == "__main__":
    main()
