"""The worker's side of its keeper: asks it to start, extend and end processes, and hears when one has ended."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langlauf.telemetry import Fact, tell
from langlauf.worker.processes.keeper import since_boot

_PROGRAM = Path(__file__).with_name("keeper.py")
_READ = 65_536


class Kept:
    """A process that the keeper holds. `ended` tells how it ended: an exit code, minus a signal, or None."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()


class Keeper:
    """Starts the keeper when it is first needed, and again where it went away."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kept: dict[int, Kept] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._rest = b""

    def start(self, command: Sequence[str], descriptors: Sequence[int]) -> Kept:
        """Starts a process with three descriptors: its line, its output, its errors."""
        kept = Kept(next(self._numbers))
        self._kept[kept.number] = kept
        self._ask({"start": kept.number, "command": list(command)}, descriptors)
        return kept

    def allow(self, processes: Sequence[Kept], seconds: float | None) -> None:
        """Lets processes run for so long; past that they are ended, even if this worker cannot say so any more."""
        if self._connection is not None and processes:
            until = None if seconds is None else since_boot() + seconds
            self._ask({"until": {kept.number: until for kept in processes}})

    def end(self, kept: Kept) -> None:
        """Ends a process and everything it started in its group, at once."""
        if self._connection is not None and not kept.ended.done():
            self._ask({"end": kept.number})

    def watch(self, seconds: float | None) -> None:
        """This worker's event loop is alive: it must say so again within the time, or the worker is ended."""
        if self._connection is not None or seconds is not None:
            self._ask({"watch": seconds})

    async def close(self) -> None:
        """Ends the keeper, and with it every process."""
        process = self._process
        self._hang_up()
        if process is not None:
            await asyncio.to_thread(process.wait)

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        line = json.dumps(request).encode() + b"\n"
        try:
            if self._connection is None:
                self._connection = self._begin()
            sent = socket.send_fds(self._connection, [line], descriptors, socket.MSG_DONTWAIT)
        except OSError as error:  # gone, or so stuck that it takes no more: it is of no use either way
            self._lost(str(error))
            return
        if sent < len(line):
            self._lost("it does not read what it is told")

    def _begin(self) -> socket.socket:
        mine, other = socket.socketpair()
        with other:
            # Run by its path and without site packages: it is there in a moment, and needs nothing of ours.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(mine, self._hear)
        return mine

    def _hear(self) -> None:
        if self._connection is None:
            return
        try:
            data = self._connection.recv(_READ, socket.MSG_DONTWAIT)
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
            if kept := self._kept.get(answer["started"]):
                kept.pid = answer["pid"]
        elif kept := self._kept.pop(answer["ended"], None):
            kept.ended.set_result(answer["status"])
            if "error" in answer:
                tell(Fact.PROCESS_DIED, logging.ERROR, reason=answer["error"])

    def _lost(self, reason: str) -> None:
        """The keeper is gone: its processes go with it, and the next request starts another one."""
        tell(Fact.KEEPER_LOST, logging.ERROR, reason=reason)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
        self._connection, self._process, self._rest = None, None, b""
        kept, self._kept = self._kept, {}
        for one in kept.values():
            if one.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(one.pid, signal.SIGKILL)
            one.ended.set_result(None)
