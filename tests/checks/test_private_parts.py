"""Private parts of other packages that the code depends on: each exists, and its package has an upper bound.

When a test here fails after an upgrade, look at the module that uses the part, adapt it, and raise the bound.
"""

import re
import tomllib
from typing import Any, NamedTuple

import asyncpg
import distributed
import pytest
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker_state_machine import TaskState, WorkerState

from tests.docs.pages import ROOT


class PrivatePart(NamedTuple):
    """An attribute without a public replacement, and the code that uses it."""

    package: str
    owner: Any
    name: str
    used_for: str


PARTS = [
    PrivatePart(
        "asyncpg", asyncpg.Connection, "_transport", "discards unsent statements of a connection that is cut off"
    ),
    PrivatePart("distributed", distributed.Worker, "plugin_add", "adds the chunk server to a running Dask worker"),
    PrivatePart("distributed", WorkerPlugin, "transition", "tells the chunk server that a task was released"),
    PrivatePart("distributed", WorkerState, "tasks", "finds the task of a chunk"),
    PrivatePart("distributed", WorkerState, "nthreads", "sizes the pool of processes"),
    PrivatePart("distributed", TaskState, "state", "tells whether a task was cancelled"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.package}-{part.name}")
def test_the_part_is_there(part: PrivatePart) -> None:
    """The attribute has not moved; asyncpg's is looked up under `suppress`, so that its loss would be silent."""
    known = {*dir(part.owner), *getattr(part.owner, "__annotations__", ())}
    assert part.name in known, f"{part.package} has no {part.owner.__name__}.{part.name}, which {part.used_for}"


def test_their_packages_have_upper_bounds() -> None:
    """A release that may move a private part is not installed before it was tried."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    wanted = {match[1]: text for many in extras.values() for text in many if (match := re.match(r"([\w-]+)", text))}
    for part in PARTS:
        assert "<" in wanted[part.package], part.package
