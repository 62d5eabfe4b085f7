"""Servers with their workers: Langlauf, and what one would build instead. Each starts from an empty store."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from bench.context import Context
from bench.environments import HERE, OWN, program_of, python_of
from bench.processes import descendants, free_port, kill, running, wait_until_answers
from bench.services import fresh_database

PEERS, APPS = HERE / "peers", HERE / "apps"
_QUIET = {"LANGLAUF_LOG_LEVEL": "error", "LANGLAUF_MAX_RUNNING": "100"}
_UVICORN = ("--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error", "--backlog", "4096")
#: What is on disk when a job counts as submitted, and as ended.
SYNCED = "synced / synced, with events and result"
REDIS_SYNCED = "up to 1 s later / up to 1 s later, with result"


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A server and its worker: `peer` is the module of the worker, `app` that of the server."""

    name: str
    environment: str
    app: str
    peer: str = ""
    needs: tuple[str, ...] = ()
    on_disk: str = SYNCED
    #: what serves it: `langlauf` with its worker, or `uvicorn`
    program: str = "uvicorn"
    #: words for `langlauf serve`
    flags: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Which API it has, as the client calls it."""
        return "langlauf" if self.program == "langlauf" else "plain"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that answers."""

    url: str
    pids: tuple[int, ...]
    #: from the start of the first program until it answered
    ready_seconds: float


LANGLAUF_SQLITE = Stack(name="Langlauf, SQLite", environment=OWN, program="langlauf", app="langlauf_stack:app")
LANGLAUF_POSTGRES = Stack(
    name="Langlauf, PostgreSQL", environment=OWN, program="langlauf", app="langlauf_stack:app", needs=("postgres",)
)
LANGLAUF_PROCESSES = Stack(
    name="Langlauf, PostgreSQL, 2 API processes",
    environment=OWN,
    program="langlauf",
    app="langlauf_stack:app",
    needs=("postgres",),
    flags=("--processes", "2"),
)
ARQ = Stack(
    name="FastAPI + arq",
    environment="arq",
    app="arq_api:api",
    peer="arq_redis",
    needs=("redis",),
    on_disk=REDIS_SYNCED,
)
PROCRASTINATE = Stack(
    name="FastAPI + Procrastinate",
    environment="procrastinate",
    app="procrastinate_api:api",
    peer="procrastinate_postgres",
    needs=("postgres",),
    on_disk="synced / synced, no result",
)
BARE_SQLITE = Stack(name="bare prototype, SQLite", environment="bare", app="bare_sqlite_api:api", peer="bare_sqlite")
BARE_POSTGRES = Stack(
    name="bare prototype, PostgreSQL",
    environment="bare",
    app="bare_postgres_api:api",
    peer="bare_postgres",
    needs=("postgres",),
)


def serves_in_processes() -> bool:
    """Whether this Langlauf can be served by several API processes."""
    said = subprocess.run([program_of(OWN, "langlauf"), "serve", "--help"], capture_output=True, text=True, check=True)
    return re.search(r"--processes\b(?:(?!\n  --).)*\bAPI\b", said.stdout, re.DOTALL) is not None


@contextmanager
def started(
    stack: Stack, context: Context, log: Path, *, environment: dict[str, str] | None = None, ready: str = "/"
) -> Iterator[Running]:
    """Start a stack on a new store, and yield it as soon as it answers."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as cleanup:
        surroundings = {**peer_environment(context, log.with_suffix(".marks")), **(environment or {})}
        if stack.kind == "langlauf":
            store = cleanup.enter_context(fresh_store(context, stack.needs, log.with_suffix(".db")))
            surroundings |= {**_QUIET, "LANGLAUF_STORE": store, "LANGLAUF_PORT": str(port)}
            # A server that starts finds its store there, as it does but once.
            subprocess.run([program_of(OWN, "langlauf"), "migrate", "--store", store], check=True, capture_output=True)
            commands = [[program_of(OWN, "langlauf"), "serve", stack.app, *stack.flags]]
        else:
            api = [program_of(stack.environment, "uvicorn"), stack.app, "--port", str(port), *_UVICORN]
            commands = [api, *_worker(stack, surroundings)]
        began = time.monotonic()
        family = [
            cleanup.enter_context(running(command, folder=APPS, environment=surroundings, log=log))
            for command in commands
        ]
        wait_until_answers(url + ready, family[0], log, success=ready != "/")
        ready_seconds = time.monotonic() - began
        yield Running(url=url, pids=tuple(process.pid for process in family), ready_seconds=ready_seconds)


def _worker(stack: Stack, surroundings: dict[str, str]) -> list[list[str]]:
    """Empty what the peer keeps; return the command of its worker, if it has one."""
    if not stack.peer:
        return []
    run_peer(stack.environment, [str(PEERS / "run.py"), stack.peer, "reset", "0"], surroundings)
    code = f"import json, {stack.peer} as peer; print(json.dumps(peer.worker_command()))"
    program, *words = msgspec.json.decode(run_peer(stack.environment, ["-c", code], surroundings), type=list[str])
    return [
        [
            program_of(stack.environment, program),
            *(str(PEERS / word) if word.endswith(".py") else word for word in words),
        ]
    ]


def run_peer(environment: str, words: Sequence[str], surroundings: dict[str, str], *, seconds: float = 120.0) -> bytes:
    """Run a program of a peer to its end and return its last line; an error carries what it said."""
    with subprocess.Popen(
        [str(python_of(environment)), *words],
        cwd=PEERS,
        env={**os.environ, **surroundings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            said, complaint = process.communicate(timeout=seconds)
        except BaseException:
            kill(descendants([process.pid]))  # its worker as well
            raise
    if process.returncode != 0:
        raise RuntimeError(complaint.decode(errors="replace")[-500:])
    return said.strip().rpartition(b"\n")[2]


def peer_environment(context: Context, marks: Path) -> dict[str, str]:
    """Return what peers read from their environment."""
    found = {"PYTHONPATH": str(PEERS), "BENCH_MARK": str(marks), "BENCH_DATA": context.folder}
    if context.postgres is not None:
        found["POSTGRES_URL"] = context.postgres
    if context.redis is not None:
        found["REDIS_URL"] = context.redis
    return found


@contextmanager
def fresh_store(context: Context, needs: tuple[str, ...], file: Path) -> Iterator[str]:
    """Yield where a new store of Langlauf is: a database, or a file that is removed."""
    if "postgres" in needs and context.postgres is not None:
        with fresh_database(context.postgres) as url:
            yield url
        return
    try:
        yield str(file)
    finally:
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)
