"""One section in a process of its own: `python -m bench.section_process NAME FILE`, its context on standard input."""

import importlib
import os
import platform
import sys
from pathlib import Path

import apsw
import msgspec

from bench.catalogue import SECTIONS
from bench.context import Context
from bench.environments import pinned
from bench.results import Measured
from bench.services import versions
from langlauf.clock import SystemClock
from langlauf.domain.instant import to_text
from langlauf.version import VERSION

_PINNED = {
    "huey": ("huey",),
    "pgqueuer": ("pgqueuer",),
    "arq": ("arq", "fastapi", "uvicorn"),
    "procrastinate": ("procrastinate", "fastapi", "uvicorn"),
    "bare": ("starlette", "msgspec", "uvicorn"),
    "client": ("aiohttp",),
}


def measure(name: str, context: Context) -> Measured:
    """Measure a section."""
    section = SECTIONS[name]
    found = Measured(
        measured_at=to_text(SystemClock().now()),
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        rounds=context.rounds,
        sizes=_sizes(name, context),
        versions=_versions(section.environments, context, section.services),
    )
    module, _, function = section.measure.partition(":")
    getattr(importlib.import_module(module), function)(context, found)
    return found


def _sizes(name: str, context: Context) -> str:
    said = [f"at most {context.jobs:,} jobs"] if context.jobs is not None else []
    if name in ("growth", "scaling"):
        said.append(f"from {min(context.sizes):,} to {max(context.sizes):,} rows")
    return ", ".join(said)


def _versions(environments: tuple[str, ...], context: Context, services: tuple[str, ...]) -> dict[str, str]:
    packages = {package: pinned(name, package) for name in environments for package in _PINNED[name]}
    return {
        "Langlauf": VERSION,
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        **versions(context.postgres, "redis" in services and context.redis is not None),
        **packages,
    }


if __name__ == "__main__":
    made = measure(sys.argv[1], msgspec.json.decode(sys.stdin.buffer.read(), type=Context))
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(made))
