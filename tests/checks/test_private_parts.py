"""Private parts of other packages that the code depends on: each exists, and its package has an upper bound.

When a test here fails after an upgrade, look at the module that uses the part, adapt it, and raise the bound.
"""

import re
import tomllib
from pkgutil import resolve_name
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT


class PrivatePart(NamedTuple):
    """An attribute without a public replacement, and the code that uses it."""

    owner: str
    name: str
    used_for: str

    @property
    def package(self) -> str:
        """The package that has it."""
        return re.split(r"[.:]", self.owner)[0]


PARTS = [
    PrivatePart("asyncpg:Connection", "_transport", "discards unsent statements of a connection that is cut off"),
    PrivatePart("distributed:Worker", "plugin_add", "adds the chunk server to a running Dask worker"),
    PrivatePart(
        "distributed.diagnostics.plugin:WorkerPlugin", "transition", "tells the chunk server that a task was released"
    ),
    PrivatePart("distributed.worker_state_machine:WorkerState", "tasks", "finds the task of a chunk"),
    PrivatePart("distributed.worker_state_machine:WorkerState", "nthreads", "sizes the pool of processes"),
    PrivatePart("distributed.worker_state_machine:TaskState", "state", "tells whether a task was cancelled"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.package}-{part.name}")
def test_the_part_is_there(part: PrivatePart) -> None:
    """The attribute has not moved; asyncpg's is looked up under `suppress`, so that its loss would be silent."""
    owner = resolve_name(part.owner)
    known = {*dir(owner), *getattr(owner, "__annotations__", ())}
    assert part.name in known, f"{part.owner} has no {part.name}, which {part.used_for}"


def test_their_packages_have_upper_bounds() -> None:
    """A release that may move a private part is not installed before it was tried."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    wanted = {match[1]: text for many in extras.values() for text in many if (match := re.match(r"([\w-]+)", text))}
    for part in PARTS:
        assert "<" in wanted[part.package], part.package
