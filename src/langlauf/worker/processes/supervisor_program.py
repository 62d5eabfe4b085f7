"""The supervisor: a small program beside a worker that starts its child processes and ends those that must end.

It is a process of its own so that it still acts when the worker cannot: when the worker is gone or paused, or its
interpreter is blocked. It imports only the standard library and is run by its path, so that it starts fast.

Requests come on standard input, a socket, one JSON object per line:

    {"start": 7, "command": […]}     start process 7, with three descriptors: socket, standard output, standard error
    {"until": {"7": 812.5}}          process 7 may run until then, in seconds since boot; null is without limit
    {"end": 7}                       end process 7 and its whole group now
    {"watch": 4.5, "interrupt": 3}   a heartbeat; without another one, interrupt the worker after 3 s, end it at 4.5
    {"watch": null}                  no heartbeats until the next watch

Replies are {"started": 7, "pid": 4711} and {"ended": 7, "status": -9}. When the socket closes, or the worker is gone
although another process still has the socket, everything is ended.

What a child process starts ends with it, also in a session of its own: orphans are adopted by the child, and after
its end by the supervisor, which ends every process that it did not start.
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
#: The interval of checks while the worker is watched, and how long it may take to die of SIGABRT before SIGKILL.
_LOOK_SECONDS = 0.1
_ABORT_SECONDS = 1.0
#: The longest delay between two checks that counts as silence of the worker: a busy machine may delay this program.
#: A longer one means that the whole machine was suspended, after which the worker gets some time for a heartbeat.
_LONGEST_DELAY = 1.0
_DEATH_SECONDS = 0.01
#: Interrupts code that blocks the event loop; ignored by default in programs that do not handle it.
_INTERRUPT = signal.SIGURG
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PR_SET_CHILD_SUBREAPER = 36
#: A third of the share of a processor that the process above gets, where both want all of it.
_NICE_STEP = 5
#: A process that starts is not held up for longer by what only makes it kinder.
_MOST_TRIES, _TRY_SECONDS = 3, 0.1


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, where the system supports it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def give_way() -> None:
    """Run at a lower priority than the process above: requests before workers, and workers before analyses.

    Where Linux schedules by sessions, a new session has a priority of its own, which the one of its process is not.
    """
    nice = os.nice(_NICE_STEP)
    for _ in range(_MOST_TRIES):
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as group:  # noqa: PTH123
                group.write(str(nice))
        except BlockingIOError:  # an ordinary user may do so ten times a second, on the whole machine
            time.sleep(_TRY_SECONDS)
        except OSError:  # Linux does not schedule by sessions here
            return
        else:
            return


def children() -> list[int]:
    """Return the child processes of this one, where the system lists them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:  # noqa: PTH123
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def since_boot() -> float:
    """Return the seconds since boot, including suspension."""
    return time.clock_gettime(_CLOCK)


class RequestSocket:
    """The socket to the worker: lines and descriptors in the order in which they were sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.descriptors: list[int] = []
        self._rest = b""

    def read(self) -> list[dict[str, Any]] | None:
        """Return the requests that have arrived, or None if the worker is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.connection, _READ, _MOST_DESCRIPTORS)
        except ConnectionError:
            return None
        self.descriptors += descriptors
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def reply(self, **fields: object) -> None:
        """Reply to the worker; one that is gone is noticed by `read`."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(fields).encode() + b"\n")


class WorkerWatch:
    """Counts down without heartbeats. Time in which the worker or this program was suspended does not count."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.left: float | None = None
        self._interrupt_at = 0.0
        self._checked_at = since_boot()

    def set(self, seconds: float | None, interrupt: float = 0.0) -> None:
        """Set the deadlines of a heartbeat."""
        self.left = seconds
        self._interrupt_at = 0.0 if seconds is None else seconds - interrupt
        self._checked_at = since_boot()

    def check(self) -> signal.Signals | None:
        """Return the signal to send to a worker whose heartbeat is overdue."""
        now = since_boot()
        passed, self._checked_at = now - self._checked_at, now
        if self.left is None or self._stopped():
            return None
        self.left -= min(passed, _LONGEST_DELAY)
        if self.left <= 0:
            return signal.SIGABRT
        return _INTERRUPT if self.left <= self._interrupt_at else None

    def _stopped(self) -> bool:
        """Whether the worker is suspended: then it is not blocked, and its writes are refused when it resumes."""
        try:
            with open(f"/proc/{self.worker}/stat", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
                return status.read().rpartition(")")[2].split()[0] in "Tt"
        except OSError:
            return False


class SupervisorProgram:
    """Starts and ends the processes of one worker."""

    def __init__(self, requests: RequestSocket, wakeups: int, worker: int) -> None:
        self._requests = requests
        self._wakeups = wakeups
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        #: killed, but not yet gone
        self._dying: dict[int, subprocess.Popen[bytes]] = {}
        self._until: dict[int, float] = {}
        self._watch = WorkerWatch(worker)
        self._death = _death_of(worker)
        self._abort_at: float | None = None

    def run(self) -> None:
        """Serve until the worker is gone; then end all its processes."""
        line = self._requests.connection.fileno()
        while os.getppid() == self._watch.worker:
            ready, _, _ = select.select([line, self._wakeups, *self._death], [], [], self._timeout())
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
        """Wait for killed processes: their jobs may be restarted as soon as this program is gone."""
        until = since_boot() + _ABORT_SECONDS
        while (self._dying or children()) and since_boot() < until:
            self._reap()
            if select.select([self._wakeups], [], [], _DEATH_SECONDS)[0]:
                os.read(self._wakeups, _READ)

    def _timeout(self) -> float | None:
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
            self._requests.reply(ended=number, status=None, error=str(error))
        else:
            self._processes[number] = process
            self._requests.reply(started=number, pid=process.pid)
        finally:
            for descriptor in (line, output, errors):
                os.close(descriptor)

    def _reap(self) -> None:
        """Report processes that ended, and end what they left running."""
        for number, process in list(self._processes.items()):
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    continue
            self._end(number)
        for number, process in list(self._dying.items()):
            status = process.poll()
            if status is not None:
                del self._dying[number]
                self._requests.reply(ended=number, status=status)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """End orphans of ended processes; orphans of those are adopted next."""
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
        # Before it is waited for: until then its pid cannot be reused. It may take some time to end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._dying[number] = process

    def _guard(self) -> None:
        """End a worker whose event loop is blocked past its lease; first with SIGABRT, which logs the stacks."""
        if self._abort_at is not None:
            if since_boot() >= self._abort_at:
                self._signal_worker(signal.SIGKILL)
            return
        due = self._watch.check()
        if due is _INTERRUPT:
            self._signal_worker(_INTERRUPT)
        elif due is not None:
            print(  # noqa: T201 - this program has no logging; its standard error is the worker's
                f"langlauf: the event loop of worker process {self._watch.worker} is blocked past its lease; "
                "ending the process, its jobs will run again. Call blocking code from a plain `def`.",
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
    """Return a descriptor that becomes readable when the process ends, where the system has pidfds."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


def main() -> None:
    """Run until the worker is gone. Signals to its process group are left to the worker."""
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
