"""A PostgreSQL server that the tests start, stop and restart."""

import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, Self

from tests.support.postgres_guardian import Guarded, data_of, guard, pid_of, processes_in
from tests.support.postgres_programs import Programs
from tests.support.processes import eventually

SUPERUSER = "postgres"
LOOPBACK = "127.0.0.1"
#: Below the ephemeral ports: while a server is down, no client that tries to reach it is given its port and connects to
#: itself.
PORTS = range(15_000, 32_000)
#: Small, but durable: commits are on disk.
SETTINGS = {
    "fsync": "on",
    "autovacuum": "on",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %d %u ",
}
_SECONDS = "60"
_TRIES = 20


class Server:
    """One server with its data in a folder. `port` stays the same over restarts."""

    def __init__(self, folder: Path, programs: Programs, listen: Sequence[str], prefix: Sequence[str]) -> None:
        self.folder = folder
        self.programs = programs
        self.listen = tuple(listen)
        self.prefix = tuple(prefix)
        self.port = 0

    @classmethod
    def create(
        cls,
        folder: Path,
        programs: Programs,
        *,
        listen: Sequence[str] = (LOOPBACK,),
        prefix: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Create and start an empty server on a free port. `settings` are lines of its configuration."""
        server = cls(folder, programs, listen, prefix)
        server._initialise({**SETTINGS, **(settings or {})})
        for _ in range(_TRIES):
            server.port = _free_port()
            try:
                server.start()
            except RuntimeError:
                if "Address already in use" not in server.log:
                    raise
            else:
                return server
        raise RuntimeError(f"no free port after {_TRIES} tries:\n{server.log}")

    @property
    def data(self) -> Path:
        """Its data folder."""
        return data_of(self.folder)

    @property
    def log(self) -> str:
        """Its log so far."""
        file = self._home / "log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return pid_of(self.folder) is not None

    @property
    def pid(self) -> int:
        """The pid of its postmaster."""
        pid = pid_of(self.folder)
        assert pid is not None, f"the server does not run:\n{self.log}"
        return pid

    def url(self, database: str = "postgres", user: str = SUPERUSER, *, host: str | None = None) -> str:
        """Return its URL, without a password."""
        host = host or self.listen[0]
        return f"postgresql://{user}@{f'[{host}]' if ':' in host else host}:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and return when it accepts connections, after recovery."""
        command = self.programs.argv("pg_ctl", "start", "-D", str(self.data), "-l", str(self._home / "log"))
        self._run([*self.prefix, *command, "-w", "-t", _SECONDS, "-o", f"-p {self.port}"])

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it: `fast` as an operator would, `immediate` like a crash. Nothing happens if it is down."""
        pid = pid_of(self.folder)
        if pid is None:
            return
        os.kill(pid, signal.SIGCONT)  # a paused one receives no signal
        try:
            self._run(self.programs.argv("pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w", "-t", _SECONDS))
        except RuntimeError:
            if self.running:
                raise

    def kill(self) -> None:
        """Kill its postmaster with SIGKILL, and wait until the others have noticed.

        Some systems keep the pid of a process that was not waited for, and PostgreSQL then takes its own lock files for
        those of a running server; so they are removed, once no process is left.
        """
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not processes_in(self.data))
        for lock in (self.data / "postmaster.pid", *self._home.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it and start it again, on the same port."""
        self.stop(mode)
        self.start()

    @property
    def _home(self) -> Path:
        return self.data.parent

    def _initialise(self, settings: Mapping[str, str]) -> None:
        """Create the data folder, owned by the user that runs the server, and write the configuration."""
        self._home.mkdir(mode=0o700)
        self.programs.give(self._home)
        words = ("-D", str(self.data), "-U", SUPERUSER, "-A", "trust", "--encoding=UTF8", "--locale=C.UTF-8")
        self._run(self.programs.argv("initdb", *words, "--no-sync"))
        ours = {
            "listen_addresses": ",".join(self.listen),
            "unix_socket_directories": str(self._home),
            **settings,
        }
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in ours.items())
        if not all(ip_address(address).is_loopback for address in self.listen):
            with (self.data / "pg_hba.conf").open("a", encoding="utf-8") as file:
                file.write("host all all samenet trust\n")

    def _run(self, command: Sequence[str]) -> None:
        """Run one of PostgreSQL's programs to its end; what it starts inherits no open files."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} said:\n{done.stdout}\n{self.log}")


@contextmanager
def running(
    programs: Callable[[Path], Programs],
    *,
    listen: Sequence[str] = (LOOPBACK,),
    prefix: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server that lives as long as the block, and never longer than this process.

    `programs` finds its programs, and may put a copy into the given folder.
    """
    guarded = Guarded()
    with guard(guarded.folder):
        try:
            yield Server.create(
                guarded.folder, programs(guarded.folder), listen=listen, prefix=prefix, settings=settings
            )
        finally:
            guarded.end()


def _free_port() -> int:
    """Return a port without a listener."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
