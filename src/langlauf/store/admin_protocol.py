"""The protocols of what is beside jobs: keys, sessions, orgs, workers and duties, deliveries and schedules."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.delivery import (
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryReplay,
    DeliveryStatistics,
    EndpointChange,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.health import DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import Instant
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.schedule import PlannedRun, Schedule, ScheduleEnd
from langlauf.store.sql import json_text


class RecordOwner(NamedTuple):
    """The org and the job of a record."""

    org_id: str
    job_id: str


class SessionEnd(NamedTuple):
    """A session that was ended before it expired. Numbers rise with every end."""

    session_id: str
    expires_at: Instant
    number: int


class AccessStore(Protocol):
    """API keys, ended sessions and signing secrets. Each verb is one atomic change."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        """Store a key, created at the store's time; None where its id is taken."""

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        """Revoke a key, of this org where one is given. Idempotent; None where there is no such key."""

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        """Return the keys of an org, or of all, revoked and expired ones too, oldest first."""

    async def key_changes(self, after: int) -> KeyChanges:
        """Return keys created or revoked after a version."""

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        """Record when keys were used last."""

    async def signing_secret(self, purpose: str) -> bytes:
        """Return the signing secret of a purpose: created at its first use, the same in every process from then on."""

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        """Record that a session was ended, until it would have expired. Idempotent."""

    async def session_ends(self, after: int) -> list[SessionEnd]:
        """Return the ends past a number, in their order."""

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        """Return the owner of a job or a result, over all orgs: for callers who need no org."""


#: Rows of this table are never deleted: a store that ever had a key stays closed to callers without one.
KEYS = "api_keys"
#: The tables of jobs. All other tables with rows of orgs can be cleared before them.
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
#: The public names of tables that a driver names differently.
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
    """Operations on one org, for operators. Each verb is one short change and idempotent."""

    async def rows(self, org_id: str) -> dict[str, int]:
        """Return how many rows of each table name the org; tables with none are there too."""

    async def held(self, org_id: str) -> int:
        """Return how many of its jobs are held."""

    async def unended(self, org_id: str, limit: int) -> list[str]:
        """Return some of its jobs that have not ended."""

    async def forget_keys(self, org_id: str) -> int:
        """Revoke its keys, erase their names and return how many there are. Their hashes stay."""

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        """Delete some of its ended jobs or, with `forced`, leased ones; return how many."""

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        """Delete some of its rows from a table; return how many. Keys stay, and lanes in which jobs wait."""


_FIELDS = WorkerReport.__struct_fields__
_ANALYSES = _FIELDS.index("analyses")
_STOPPING = _FIELDS.index("stopping")


class WorkerStore(Protocol):
    """Workers and their reports: no tenant data, and no job depends on them."""

    async def save_report(self, report: WorkerReport) -> None:
        """Store the report of a worker at the store's time; delete workers that have been silent for long."""

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        """Store which code a worker runs: before its first claim, and now and then, so that it is kept. Idempotent."""

    async def code(self, key: int) -> CodeVersion | None:
        """Return the code with this key."""

    async def remove(self, worker_id: str) -> None:
        """The worker has stopped."""

    async def statuses(self) -> list[WorkerStatus]:
        """Return all that report or did so lately, the oldest first."""


def worker_values(report: WorkerReport) -> dict[str, Any]:
    """Return a report by column."""
    values = {name: getattr(report, name) for name in _FIELDS}
    return {**values, "analyses": json_text(report.analyses)}


def worker_from(row: Sequence[Any]) -> WorkerStatus:
    """Return a worker from its columns, when it was seen, and what it holds until when."""
    values = list(row[: len(_FIELDS)])
    values[_ANALYSES] = msgspec.json.decode(values[_ANALYSES], type=tuple[str, ...])
    values[_STOPPING] = bool(values[_STOPPING])
    return WorkerStatus(WorkerReport(**dict(zip(_FIELDS, values, strict=True))), *row[len(_FIELDS) :])


class DutyStore(Protocol):
    """When maintenance duties last succeeded: no tenant data, and no job depends on it."""

    async def record_success(self, name: str, host: str) -> None:
        """A duty has just done what it is for, at the store's own time."""

    async def successes(self) -> list[DutySuccess]:
        """Return the last success of each, by name."""


# -- deliveries and receivers of mail ----------------------------------------------------------------------------------
# Endpoints and the log of deliveries are tenant data: they are read through `TenantReads`.


class DeliveryStore(Protocol):
    """The outbox and webhook endpoints. Each verb is one atomic change."""

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        """Store an endpoint; None where the org has one for that URL already, or too many."""

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        """Change an endpoint of an org; None where there is no such one."""

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        """Delete an endpoint, and give up its pending messages."""

    async def subscribe(self, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
        """Add a subscription to a job, in place of its last one for that channel. Idempotent.

        False where the job has ended, whose messages are written; None where the org has no such job.
        """

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        """Claim due messages, so that no lane blocks another; each is to be finished before its claim expires."""

    async def finish(self, end: DeliveryEnd) -> bool:
        """Record the result of an attempt; False where a later attempt was made or the message is settled.

        Repeating it changes nothing and returns the same: the first answer may have been lost.
        """

    async def replay(self, request: DeliveryReplay) -> int:
        """Make settled messages due again, with all their tries; return how many."""

    async def figures(self) -> DeliveryStatistics:
        """Return the state of deliveries over all orgs."""


class MailStore(Protocol):
    """Receivers of mail and their rate limits. Each verb is one atomic change."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Mark an address for an org; False where it is marked so already."""

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Remove a mark; False where there is none."""

    async def admit(self, request: MailAdmission) -> MailRefusal | None:
        """Admit a mail and count it, or return why not. An attempt is counted once, however often it is repeated."""


# -- schedules ---------------------------------------------------------------------------------------------------------


class ScheduleStore(Protocol):
    """Schedules of all orgs. Each verb is one atomic change."""

    async def add(self, new: Schedule) -> bool:
        """Store a schedule; False where the org has one of that name already, or too many."""

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        """Replace a schedule as it was at `seen_at`; False where it has changed since or is gone."""

    async def remove(self, org_id: str, name: str) -> bool:
        """Remove a schedule; its jobs stay. False where there is none."""

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        """Return when the first schedule of these analyses is due that no process fires; perhaps in the past."""

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        """Return due schedules of these analyses, and keep other processes from them for so many seconds."""

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        """Return the schedules, by org and name, of which an earlier run than the planned one has not ended."""

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        """Record what became of due runs, and when the next ones are; return how many were still due."""

    async def of_code(self) -> list[Schedule]:
        """Return the schedules that come with code."""
