"""Processes that a section starts: each in a group of its own, stopped as a group, measured with all descendants."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import psutil

_STOP_SECONDS = 15.0
_SUCCESS = range(200, 400)


class DidNotStart(Exception):
    """A process that did not get ready; the message ends with what it said."""


@contextmanager
def running(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program in a process group of its own while the block lasts; what it says goes to the log."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process group: first politely, then at once; descendants that left the group end as well."""
    family = descendants([process.pid])
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    kill(family)
    process.wait()


def descendants(pids: Sequence[int]) -> list[psutil.Process]:
    """Return processes with all their descendants."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found


def kill(family: Sequence[psutil.Process]) -> None:
    """Kill what is left of some processes."""
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return processor time of processes and their descendants, with those that have ended and were waited for."""
    total = 0.0
    for process in descendants(pids):
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def pss_bytes(pids: Sequence[int]) -> int:
    """Return the proportional memory of processes and all their descendants."""
    total = 0
    for process in descendants(pids):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def free_port() -> int:
    """Return a port that nothing listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until_answers(
    url: str, process: "subprocess.Popen[bytes]", log: Path, *, seconds: float = 30.0, success: bool = False
) -> None:
    """Return as soon as a server answers; with `success` it must be with one."""
    parts = urlsplit(url)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=5)
        try:
            connection.request("GET", parts.path or "/")
            if connection.getresponse().status in _SUCCESS or not success:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.005)
    raise DidNotStart(f"{url} does not answer: {log.read_text('utf-8', errors='replace')[-500:]}")
