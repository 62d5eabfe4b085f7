"""The states of a job and the one table of legal transitions.

Database constraints, the diagram in the documents and the property tests are derived from `TRANSITIONS`; nothing else
lists which change is legal.
"""

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """The state of a job. The same word is in the row, in the log and in the API."""

    #: that of `Enum` is computed in Python, for every look-up by state
    __hash__ = str.__hash__

    QUEUED = "queued"
    """Accepted and on disk; a claim or a cancel moves it on."""
    RUNNING = "running"
    """Claimed at least once, no snapshot yet; its attempt, the sweep or a cancel moves it on."""
    PARTIAL = "partial"
    """Like running, with at least one partial snapshot."""
    COMPLETED = "completed"
    """Ended with exactly one final snapshot."""
    FAILED = "failed"
    """Ended with an error; what it stored before stays readable."""
    CANCELED = "canceled"
    """Stopped on purpose; what it stored before stays readable."""


class Transition(NamedTuple):
    """One legal change of state. `source` is None for a new job."""

    source: Status | None
    target: Status
    when: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, Status.QUEUED, "accepted"),
    Transition(Status.QUEUED, Status.RUNNING, "a worker claims it"),
    Transition(Status.QUEUED, Status.CANCELED, "user or system cancels"),
    Transition(Status.RUNNING, Status.PARTIAL, "first validated chunk result"),
    Transition(Status.RUNNING, Status.COMPLETED, "ends without a partial"),
    Transition(Status.RUNNING, Status.FAILED, "terminal error"),
    Transition(Status.RUNNING, Status.CANCELED, "user, system or worker cancels"),
    Transition(Status.PARTIAL, Status.PARTIAL, "more chunks or progress"),
    Transition(Status.PARTIAL, Status.COMPLETED, "final aggregation"),
    Transition(Status.PARTIAL, Status.FAILED, "terminal error"),
    Transition(Status.PARTIAL, Status.CANCELED, "user, system or worker cancels"),
)

LEGAL: frozenset[tuple[Status | None, Status]] = frozenset((t.source, t.target) for t in TRANSITIONS)
TERMINAL: frozenset[Status] = frozenset(Status) - {t.source for t in TRANSITIONS if t.source}
STARTED: frozenset[Status] = frozenset({Status.RUNNING, Status.PARTIAL})


def is_legal(source: Status | None, target: Status) -> bool:
    """Whether the table has this transition."""
    return (source, target) in LEGAL


def mermaid() -> str:
    """Return the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {t.source or '[*]'} --> {t.target}: {t.when}" for t in TRANSITIONS]
    lines += [f"    {state} --> [*]" for state in Status if state in TERMINAL]
    return "\n".join(lines)
