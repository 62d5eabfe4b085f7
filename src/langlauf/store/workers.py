"""What every store promises about workers and duties: they report, and people see who works and what was done when."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from langlauf.domain.duties import DutyDone
from langlauf.domain.workers import WorkerReport, WorkerSeen
from langlauf.store.rows import json_text

_FIELDS = WorkerReport.__struct_fields__
_ANALYSES = _FIELDS.index("analyses")
_STOPPING = _FIELDS.index("stopping")


class WorkerStore(Protocol):
    """Who works. It is no tenant data, and nothing depends on it: a lost report costs a moment of knowledge."""

    async def note(self, report: WorkerReport) -> None:
        """Keeps what a worker tells, at the store's own time; forgets those that were silent for long."""

    async def forget(self, worker_id: str) -> None:
        """The worker has stopped."""

    async def seen(self) -> list[WorkerSeen]:
        """All that report or did so lately, the oldest first."""


def worker_values(report: WorkerReport) -> dict[str, Any]:
    """A report by column."""
    values = {name: getattr(report, name) for name in _FIELDS}
    return {**values, "analyses": json_text(report.analyses)}


def worker_from(row: Sequence[Any]) -> WorkerSeen:
    """A worker from its columns, when it was seen, and what it holds until when."""
    values = list(row[: len(_FIELDS)])
    values[_ANALYSES] = msgspec.json.decode(values[_ANALYSES], type=tuple[str, ...])
    values[_STOPPING] = bool(values[_STOPPING])
    return WorkerSeen(WorkerReport(**dict(zip(_FIELDS, values, strict=True))), *row[len(_FIELDS) :])


class DutyStore(Protocol):
    """When upkeep last succeeded. It is no tenant data, and nothing but people depends on it."""

    async def note(self, name: str, host: str) -> None:
        """A duty has just done what it is for, at the store's own time."""

    async def seen(self) -> list[DutyDone]:
        """The last success of each, by name."""
