"""Processor time, from the operating system: of a database's connections, and of everything on this machine.

Durations tell little while others use the machine; what a process used of a processor changes far less.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.store.figures import JobCost

_PROC = Path("/proc")
#: The last query of a connection shows its purpose.
_KIND = re.compile(r"\b(submit|claim|record)\(|(SKIP LOCKED)")
_BACKENDS = "SELECT pid, query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
#: Columns of the first line of /proc/stat that count work: user, nice, system, irq, softirq, steal.
_BUSY = (1, 2, 3, 6, 7, 8)


class Usage(NamedTuple):
    """Seconds of processor time until a moment."""

    #: of each connection, by process and what it is for
    backends: dict[int, tuple[str, float]] | None
    #: of all processes of the machine; None where that cannot be read
    machine: float | None


async def usage(connection: Any) -> Usage:
    """Return the time used so far, by the other connections to the same database and by the machine."""
    rows = await connection.fetch(_BACKENDS)
    used = {pid: (_kind(query), process_seconds(pid)) for pid, query in rows}
    known = {pid: (kind, seconds) for pid, (kind, seconds) in used.items() if seconds is not None}
    return Usage(known if len(known) == len(used) else None, _machine_seconds())


async def used_by(connection: Any, kind: str) -> float:
    """Seconds that connections of one kind used so far; 0 where that cannot be read."""
    backends = (await usage(connection)).backends or {}
    return sum(seconds for its_kind, seconds in backends.values() if its_kind == kind)


def cost_between(before: Usage, after: Usage, *, jobs: int, seconds: float, client_seconds: float) -> JobCost:
    """Return what a job cost between two moments."""
    stages: dict[str, float] = {}
    if before.backends is not None and after.backends is not None:
        for pid, (kind, used) in after.backends.items():
            stages[kind] = stages.get(kind, 0.0) + used - before.backends.get(pid, ("", 0.0))[1]
    database = sum(stages.values()) if stages else None
    ours = client_seconds + (database or 0.0)
    all_used = 0.0 if before.machine is None or after.machine is None else after.machine - before.machine
    cores = os.cpu_count() or 1
    return JobCost(
        client_us=round(client_seconds / jobs * 1e6, 1),
        database_us=None if database is None else round(database / jobs * 1e6, 1),
        stages_us={kind: round(used / jobs * 1e6, 1) for kind, used in sorted(stages.items())},
        cores_left=round(max(0.0, min(cores, cores - (all_used - ours) / seconds)), 2),
    )


def _kind(query: str | None) -> str:
    found = _KIND.search(query or "")
    return (found[1] or "bare") if found else "other"


def process_seconds(pid: int) -> float | None:
    """Of one process of PostgreSQL on this machine; None where it is not here."""
    try:
        if not (_PROC / str(pid) / "comm").read_text("utf-8").startswith("postgres"):
            return None
        return int((_PROC / str(pid) / "schedstat").read_text("utf-8").split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def cluster_seconds(backends: Sequence[int]) -> float | None:
    """Of all processes of the server whose connections these are, also of those that have ended; None elsewhere."""
    try:
        server = _parent(backends[0])
        children = [int(one.name) for one in _PROC.iterdir() if one.name.isdigit() and _parent(int(one.name)) == server]
        ended = sum(int(word) for word in _stat(server)[13:15]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return ended + sum(process_seconds(child) or 0.0 for child in children)


def _parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except FileNotFoundError:  # it has just ended
        return 0


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat, from the state on."""
    return (_PROC / str(pid) / "stat").read_text("utf-8").rpartition(")")[2].split()


def _machine_seconds() -> float | None:
    try:
        words = (_PROC / "stat").read_text("utf-8").partition("\n")[0].split()
    except OSError:
        return None
    return sum(int(words[column]) for column in _BUSY) / os.sysconf("SC_CLK_TCK")
