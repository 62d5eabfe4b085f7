"""What a store promises about who may call. It is apart from a job's life: nothing here is asked for by a worker."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.health import DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import Instant
from langlauf.store.rows import json_text


class RecordOwner(NamedTuple):
    """Whose a record is, and of which job."""

    org_id: str
    job_id: str


class SessionEnd(NamedTuple):
    """A session that was ended before its time. Numbers rise with every end."""

    session_id: str
    expires_at: Instant
    number: int


class AccessStore(Protocol):
    """Keys, ends of sessions, and what signatures are made with. Each verb is one atomic change."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        """Keeps a key; None where its id is taken. It is made at the store's time."""

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        """Ends a key, of this org where one is named. Idempotent; None where there is no such key."""

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        """The keys of an org, or of all, revoked and expired ones too, oldest first."""

    async def key_changes(self, after: int) -> KeyChanges:
        """What was made or revoked past a version."""

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        """Remembers when keys were used last."""

    async def signing_secret(self, purpose: str) -> bytes:
        """What signatures are made with: made at its first use, the same in every process ever after."""

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        """Remembers that a session was ended, until it would have ended by itself. Repeating it changes nothing."""

    async def session_ends(self, after: int) -> list[SessionEnd]:
        """The ends past a number, in their order."""

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        """The owner of a job or a result, over all orgs: for callers who need no org."""


#: Rows of this table are not removed: that there ever was a key is what closes a store to callers without one.
KEYS = "api_keys"
#: The tables of a job's own life. Everything else that has rows of orgs can go before them.
OF_JOBS = frozenset(
    {
        "jobs",
        "job_inputs",
        "job_events",
        "job_results",
        "job_chunks",
        "notifications",
        "leases",
        "lanes",
        "idempotency_keys",
        KEYS,
    }
)
#: The names that people know tables by which a store calls otherwise.
KNOWN_AS = {
    "job_rows": "jobs",
    "event_rows": "job_events",
    "result_rows": "job_results",
    "chunk_rows": "job_chunks",
    "key_rows": "idempotency_keys",
    "lane_rows": "lanes",
    "outbox": "notifications",
}


class OrgStore(Protocol):
    """One org at a time, by its name; for operators. Each verb is one short change, and may be repeated."""

    async def rows(self, org_id: str) -> dict[str, int]:
        """How many rows of each table name the org; tables with none are there too."""

    async def held(self, org_id: str) -> int:
        """How many of its jobs are held."""

    async def unended(self, org_id: str, limit: int) -> list[str]:
        """Some of its jobs that have not ended."""

    async def forget_keys(self, org_id: str) -> int:
        """Ends its keys and forgets their names; how many there are. Their hashes stay."""

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        """Takes some of its jobs away that have ended, or, where it is forced, that a worker has; how many went."""

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        """Takes some of its rows out of a table; how many went. Keys stay, and a lane in which a job waits."""


_FIELDS = WorkerReport.__struct_fields__
_ANALYSES = _FIELDS.index("analyses")
_STOPPING = _FIELDS.index("stopping")


class WorkerStore(Protocol):
    """Who works. It is no tenant data, and nothing depends on it: a lost report costs a moment of knowledge."""

    async def note(self, report: WorkerReport) -> None:
        """Keeps what a worker tells, at the store's own time; forgets those that were silent for long."""

    async def forget(self, worker_id: str) -> None:
        """The worker has stopped."""

    async def seen(self) -> list[WorkerStatus]:
        """All that report or did so lately, the oldest first."""


def worker_values(report: WorkerReport) -> dict[str, Any]:
    """A report by column."""
    values = {name: getattr(report, name) for name in _FIELDS}
    return {**values, "analyses": json_text(report.analyses)}


def worker_from(row: Sequence[Any]) -> WorkerStatus:
    """A worker from its columns, when it was seen, and what it holds until when."""
    values = list(row[: len(_FIELDS)])
    values[_ANALYSES] = msgspec.json.decode(values[_ANALYSES], type=tuple[str, ...])
    values[_STOPPING] = bool(values[_STOPPING])
    return WorkerStatus(WorkerReport(**dict(zip(_FIELDS, values, strict=True))), *row[len(_FIELDS) :])


class DutyStore(Protocol):
    """When upkeep last succeeded. It is no tenant data, and nothing but people depends on it."""

    async def note(self, name: str, host: str) -> None:
        """A duty has just done what it is for, at the store's own time."""

    async def seen(self) -> list[DutySuccess]:
        """The last success of each, by name."""
