"""Servers and workers as processes over one store, and the signals they are sent."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from tests.faults.ledger import LEDGER_NAME, Ledger
from tests.faults.plan import Plan
from tests.support.processes import eventually, stopped, worker_processes
from tests.support.server import ROOT, command, environment

_READY = re.compile(r"Langlauf (?:serves .* on (?P<url>http://\S+)|runs jobs of )")
_START_SECONDS = 60.0
_LOCK_MILLISECONDS = 500


class Program:
    """One process: its log events, and the signals it is sent."""

    def __init__(self, process: asyncio.subprocess.Process, *, workers: int, serves: bool) -> None:
        self.process = process
        #: the process that runs analyses, once ready: the worker process if there is one
        self.pid = process.pid
        self.workers = workers
        self.serves = serves
        self.url = ""
        self.ready_at = 0.0
        self.facts: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._ready = asyncio.Event()
        self._news = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    @property
    def alive(self) -> bool:
        """Whether it runs, paused or not."""
        return self.process.returncode is None

    async def ready(self) -> None:
        """Wait until it has logged that it is ready."""
        async with asyncio.timeout(_START_SECONDS):
            await self._ready.wait()
        assert self.ready_at, "the program did not start:\n" + "".join(self._text)
        self.pid = next(iter(worker_processes(self.process.pid)), self.process.pid)

    def log_lines(self, fact: str) -> list[dict[str, Any]]:
        """Return the log lines of one event."""
        return [one for one in self.facts if one["event"] == fact]

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for log lines that make the condition true; False on a timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        return condition()

    async def kill(self) -> float:
        """Send SIGKILL; return when it was sent."""
        at = time.monotonic()
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        await self._reader
        return at

    def pause(self) -> None:
        """Send SIGSTOP, to its worker process first; return when no thread runs."""
        for pid in (self.pid, self.process.pid):
            os.kill(pid, signal.SIGSTOP)
        eventually(lambda: stopped(self.pid) and stopped(self.process.pid))

    def go_on(self) -> None:
        """Send SIGCONT."""
        for pid in (self.process.pid, self.pid):
            os.kill(pid, signal.SIGCONT)

    async def stop(self, seconds: float = 40.0) -> int:
        """Stop it as a service manager would; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        await self._reader
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode()
            self._text.append(line)
            if line.startswith("{"):
                self.facts.append(json.loads(line))
            elif match := _READY.search(line):
                self.url, self.ready_at = match["url"] or "", time.monotonic()
                self._ready.set()
            self._news.set()
        self._ready.set()


class Deployment:
    """Processes with one store, one ledger and one set of settings."""

    def __init__(self, plan: Plan, name: str, settings: Mapping[str, str]) -> None:
        self.folder = plan.folder / name
        self.folder.mkdir(parents=True)
        self._app = plan.app
        self.ledger = Ledger(self.folder / "ledger")
        self.serving = asyncio.Event()
        self.programs: list[Program] = []
        self._server: Program | None = None
        self._settings = {"LANGLAUF_LOG_FORMAT": "json", LEDGER_NAME: str(self.ledger.path), **settings}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.programs:
            if program.alive:
                await program.kill()

    @property
    def url(self) -> str:
        """The URL of the server; each start has another port."""
        assert self._server is not None
        return self._server.url

    async def kill(self, program: Program) -> float:
        """Kill a process of this deployment; return when."""
        if program.serves:
            self.serving.clear()
        at = await program.kill()
        self.programs.remove(program)
        return at

    async def stop(self) -> None:
        """Stop all processes as a service manager would."""
        self.serving.clear()
        codes = await asyncio.gather(*(program.stop() for program in self.programs))
        assert not any(codes), codes

    async def _start(
        self,
        store: str,
        verb: str,
        *flags: str,
        workers: int,
        serves: bool,
        prefix: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> Program:
        process = await asyncio.create_subprocess_exec(
            *(*prefix, *command(verb, self._app, *flags, "--store", store)),
            cwd=ROOT,
            env=environment(**{**self._settings, **(settings or {})}),
            stderr=asyncio.subprocess.PIPE,
        )
        program = Program(process, workers=workers, serves=serves)
        self.programs.append(program)
        await program.ready()
        return program


class Fleet(Deployment):
    """A deployment on one machine with one SQLite file."""

    def __init__(self, plan: Plan, name: str, settings: Mapping[str, str]) -> None:
        super().__init__(plan, name, settings)
        self.store = self.folder / "store.db"

    async def serve(self, workers: int) -> Program:
        """Start a server and wait until it is ready."""
        flags = ("--port", "0", "--workers", str(workers))
        self._server = await self._start(str(self.store), "serve", *flags, workers=workers, serves=True)
        self.serving.set()
        return self._server

    async def work(self) -> Program:
        """Start a worker process."""
        return await self._start(str(self.store), "worker", workers=1, serves=False)

    async def again(self, program: Program) -> Program:
        """Start a killed process again on the same store."""
        return await (self.serve(program.workers) if program.serves else self.work())

    def write_lock_is_free(self) -> bool:
        """Whether the write lock is free: a process paused during a commit keeps the lock of the file."""
        connection = apsw.Connection(str(self.store))
        connection.set_busy_timeout(_LOCK_MILLISECONDS)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True


async def verified(store: Path | str) -> bool:
    """Whether `langlauf verify` finds the store sound."""
    words = command("verify", "--store", str(store), "--json")
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE)
    found, _ = await process.communicate()
    if process.returncode:
        print(found.decode())
    return process.returncode == 0
