"""What happens to a job, one word per kind; the log of it is append-only."""

from enum import StrEnum
from typing import Literal

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.state import TERMINAL, Status

ActorType = Literal["system", "worker", "user"]


class EventType(StrEnum):
    """The kinds of events. Each is written in the transaction of the change it tells of."""

    QUEUED = "job.queued"
    """The job was accepted."""
    RUNNING = "job.running"
    """Its first attempt started."""
    ATTEMPT_STARTED = "job.attempt_started"
    """A further attempt started."""
    PROGRESS = "job.progress"
    """Percent or step changed."""
    PARTIAL = "job.partial"
    """A partial snapshot was stored."""
    COMPLETED = "job.completed"
    """The final snapshot was stored."""
    FAILED = "job.failed"
    """The job ended with an error."""
    CANCEL_REQUESTED = "job.cancel_requested"
    """Somebody asked a running job to stop."""
    CANCELED = "job.canceled"
    """The job was stopped."""
    RETRY_SCHEDULED = "job.retry_scheduled"
    """An attempt failed and another one is due at a known time."""
    TIMEOUT = "job.timeout"
    """An attempt ran out of time."""
    LEASE_LOST = "job.lease_lost"
    """The worker of an attempt vanished."""
    RELEASED = "job.released"
    """An attempt was given back at shutdown."""


#: The state a job is in after the event; kinds that are not here leave it as it was.
STATE_AFTER: dict[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.RUNNING: Status.RUNNING,
    EventType.PARTIAL: Status.PARTIAL,
    EventType.COMPLETED: Status.COMPLETED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}

#: The kinds that end a job, and with it its log.
FINAL_EVENTS = frozenset(kind for kind, state in STATE_AFTER.items() if state in TERMINAL)


class Event(msgspec.Struct, frozen=True):
    """One entry of a job's log. Fields are in the order of the table's columns."""

    org_id: str
    job_id: str
    event_seq: int
    event_id: str
    event_type: EventType
    occurred_at: Instant
    actor_type: ActorType
    #: JSON text, kept as it is stored
    payload_json: str
    trace_id: str
    request_id: str
