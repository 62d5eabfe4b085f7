"""What is beside jobs: keys, sessions, orgs, workers and duties, deliveries and schedules; the same for every store.

A driver brings the calls: functions of the database, or queries and functions of this program over a file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec.structs import asdict

from langlauf.clock import new_secret
from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.delivery import (
    MOST_ENDPOINTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryReplay,
    DeliveryStatistics,
    EndpointChange,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.health import SILENT_KEPT_SECONDS, DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import Instant, after
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.schedule import MOST_SCHEDULES, PlannedRun, Schedule, ScheduleEnd
from langlauf.store.sql import endpoint_from, json_text, key_from, schedule_from, scopes_text, subjects_text


class StoreCalls(ABC):
    """Runs by its name what a store can do. Values are in the order of the function of that name in PostgreSQL."""

    @abstractmethod
    async def _rows(self, query: str, /, **values: Any) -> list[Any]:
        """Return the rows of a read."""

    @abstractmethod
    async def _call(self, change: str, /, **values: Any) -> Any:
        """Make a change at the time of the store, in one transaction, and return its value or its rows."""


class RecordOwner(NamedTuple):
    """The org and the job of a record."""

    org_id: str
    job_id: str


class SessionEnd(NamedTuple):
    """A session that was ended before it expired. Numbers rise with every end."""

    session_id: str
    expires_at: Instant
    number: int


class AccessStore(StoreCalls):
    """API keys, ended sessions and signing secrets. Each verb is one atomic change."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        """Store a key, created at the store's time; None where its id is taken."""
        key = new.key
        rows = await self._call(
            "create_key",
            key_id=key.key_id,
            org_id=key.org_id,
            name=key.name,
            secret_hash=new.secret_hash,
            scopes=scopes_text(key.scopes),
            expires_at=key.expires_at,
        )
        return key_from(rows[0]) if rows else None

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        """Revoke a key, of this org where one is given. Idempotent; None where there is no such key."""
        # Looked for first: nothing is written about the key of another org, nor about one that does not exist.
        if not await self._rows("find_key", key_id=key_id, org_id=org_id):
            return None
        rows = await self._call("revoke_key", key_id=key_id, org_id=org_id)
        return key_from(rows[0]) if rows else None

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        """Return the keys of an org, or of all, revoked and expired ones too, oldest first."""
        return [key_from(row) for row in await self._rows("list_keys", org_id=org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        """Return keys created or revoked after a version."""
        rows = await self._rows("key_changes", after=after)
        changed = [HashedKey(key_from(key), secret_hash) for *key, secret_hash, _ in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        """Record when keys were used last."""
        await self._call("note_key_uses", rows=json_text([{"key_id": key, "at": at} for key, at in uses.items()]))

    async def signing_secret(self, purpose: str) -> bytes:
        """Return the signing secret of a purpose: created at its first use, the same in every process from then on."""
        return cast("bytes", await self._call("keep_secret", purpose=purpose, secret=new_secret()))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        """Record that a session was ended, until it would have expired. Idempotent."""
        await self._call("end_session", session_id=session_id, expires_at=expires_at)

    async def session_ends(self, after: int) -> list[SessionEnd]:
        """Return the ends past a number, in their order."""
        return [SessionEnd(*row) for row in await self._rows("session_ends", after=after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        """Return the owner of a job or a result, over all orgs: for callers who need no org."""
        rows = await self._rows("owners", kind=kind, record_id=record_id)
        return RecordOwner(*rows[0]) if len(rows) == 1 else None


#: Rows of this table are never deleted: a store that ever had a key stays closed to callers without one.
KEYS = "api_keys"
#: The tables of jobs. All other tables with rows of orgs can be cleared before them.
OF_JOBS = frozenset(
    {"jobs", "job_inputs", "job_events", "job_results", "job_chunks", "notifications", "leases", "lanes"}
    | {"idempotency_keys", KEYS}
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


class OrgStore(StoreCalls):
    """Operations on one org, for operators. Each verb is one short change and idempotent."""

    @abstractmethod
    async def rows(self, org_id: str) -> dict[str, int]:
        """Return how many rows of each table name the org; tables with none are there too."""

    async def held(self, org_id: str) -> int:
        """Return how many of its jobs are held."""
        [(count,)] = await self._rows("org_held", org_id=org_id)
        return int(count)

    async def unended(self, org_id: str, limit: int) -> list[str]:
        """Return some of its jobs that have not ended."""
        return [job_id for (job_id,) in await self._rows("org_unended", org_id=org_id, limit=limit)]

    async def forget_keys(self, org_id: str) -> int:
        """Revoke its keys, erase their names and return how many there are. Their hashes stay."""
        return int(await self._call("forget_keys", org_id=org_id))

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        """Delete some of its ended jobs or, with `forced`, leased ones; return how many."""
        which = {"org_id": org_id, "limit": limit, "with_held": with_held, "forced": forced}
        return int(await self._call("erase_jobs", **which))

    @abstractmethod
    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        """Delete some of its rows from a table; return how many. Keys stay, and lanes in which jobs wait."""


_FIELDS = WorkerReport.__struct_fields__
_ANALYSES = _FIELDS.index("analyses")
_STOPPING = _FIELDS.index("stopping")


class WorkerStore(StoreCalls):
    """Workers and their reports: no tenant data, and no job depends on them."""

    async def save_report(self, report: WorkerReport) -> None:
        """Store the report of a worker at the store's time; delete workers that have been silent for long."""
        values = asdict(report) | {"analyses": json_text(report.analyses)}
        await self._call("save_worker_report", kept=after(0, SILENT_KEPT_SECONDS), **values)

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        """Store which code a worker runs: before its first claim, and now and then, so that it is kept. Idempotent."""
        await self._call("save_codes", rows=json_text([{"code": one.key, **asdict(one)} for one in codes]))

    async def code(self, key: int) -> CodeVersion | None:
        """Return the code with this key."""
        rows = await self._rows("find_code", code=key)
        return (
            CodeVersion(**dict(zip(CodeVersion.__struct_fields__, list(rows[0])[1:-1], strict=True))) if rows else None
        )

    async def remove(self, worker_id: str) -> None:
        """The worker has stopped."""
        await self._call("remove_worker", worker_id=worker_id)

    async def statuses(self) -> list[WorkerStatus]:
        """Return all that report or did so lately, the oldest first."""
        return [worker_from(row) for row in await self._rows("all_workers")]


def worker_from(row: Sequence[Any]) -> WorkerStatus:
    """Return a worker from its columns, when it was seen, and what it holds until when."""
    values = list(row)[: len(_FIELDS)]
    values[_ANALYSES] = msgspec.json.decode(values[_ANALYSES], type=tuple[str, ...])
    values[_STOPPING] = bool(values[_STOPPING])
    return WorkerStatus(WorkerReport(**dict(zip(_FIELDS, values, strict=True))), *list(row)[len(_FIELDS) :])


class DutyStore(StoreCalls):
    """When maintenance duties last succeeded: no tenant data, and no job depends on it."""

    async def record_success(self, name: str, host: str) -> None:
        """A duty has just done what it is for, at the store's own time."""
        await self._call("record_duty", name=name, host=host)

    async def successes(self) -> list[DutySuccess]:
        """Return the last success of each, by name."""
        return [DutySuccess(*row) for row in await self._rows("all_duties")]


# -- deliveries and receivers of mail ----------------------------------------------------------------------------------
# Endpoints and the log of deliveries are tenant data: they are read through `TenantReads`.

#: Before every message.
_BEGINNING = -(2**62)


class DeliveryStore(StoreCalls):
    """The outbox and webhook endpoints. Each verb is one atomic change."""

    #: the time of the store; None where its database has it
    _now: Callable[[], Instant | None]

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        """Store an endpoint; None where the org has one for that URL already, or too many."""
        rows = await self._call(
            "add_endpoint",
            org_id=new.org_id,
            endpoint_id=new.endpoint_id,
            url=new.url,
            name=new.name,
            subjects=subjects_text(new.subjects),
            most=MOST_ENDPOINTS,
        )
        return endpoint_from(rows[0]) if rows else None

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        """Change an endpoint of an org; None where there is no such one."""
        subjects = None if change.subjects is None else subjects_text(change.subjects)
        values = asdict(change) | {"subjects": subjects, "reason": change.reason or "switched off"}
        rotate_seconds = values.pop("rotate_seconds")
        values["overlap"] = None if rotate_seconds is None else after(0, rotate_seconds)
        rows = await self._call("change_endpoint", **values)
        return endpoint_from(rows[0]) if rows else None

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        """Delete an endpoint, and give up its pending messages."""
        return bool(await self._call("remove_endpoint", org_id=org_id, endpoint_id=endpoint_id))

    async def subscribe(self, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
        """Add a subscription to a job, in place of its last one for that channel. Idempotent.

        False where the job has ended, whose messages are written; None where the org has no such job.
        """
        values = {"org_id": org_id, "job_id": job_id, **asdict(wanted)}
        rows = await self._call("subscribe", **values)
        return bool(rows[0][0]) if rows else None

    @abstractmethod
    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        """Claim due messages, so that no lane blocks another; each is to be finished before its claim expires."""

    async def finish(self, end: DeliveryEnd) -> bool:
        """Record the result of an attempt; False where a later attempt was made or the message is settled.

        Repeating it changes nothing and returns the same: the first answer may have been lost.
        """
        return bool(await self._call("finish_delivery", **asdict(end)))

    async def replay(self, request: DeliveryReplay) -> int:
        """Make settled messages due again, with all their tries; return how many."""
        values = asdict(request) | {"since": _BEGINNING if request.since is None else request.since}
        return int(await self._call("replay", **values))

    async def figures(self) -> DeliveryStatistics:
        """Return the state of deliveries over all orgs."""
        pending = {channel: count for channel, count in await self._rows("pending_deliveries")}  # noqa: C416 - a row is no pair
        [(_, oldest_due, paused, disabled)] = await self._rows("delivery_state", now=self._now())
        return DeliveryStatistics(
            pending=pending, oldest_due=oldest_due, paused_lanes=paused, disabled_endpoints=disabled
        )


class MailStore(StoreCalls):
    """Receivers of mail and their rate limits. Each verb is one atomic change."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Mark an address for an org; False where it is marked so already."""
        return bool(await self._call("add_mail_mark", org_id=org_id, address=address, mark=mark))

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Remove a mark; False where there is none."""
        return bool(await self._call("remove_mail_mark", org_id=org_id, address=address, mark=mark))

    async def admit(self, request: MailAdmission) -> MailRefusal | None:
        """Admit a mail and count it, or return why not. An attempt is counted once, however often it is repeated."""
        values = asdict(request)
        org, address = values.pop("org_rate"), values.pop("address_rate")
        values |= {"org_quota": org.quota, "org_window": after(0, org.window)}
        values |= {"address_quota": address.quota, "address_window": after(0, address.window)}
        refusal = await self._call("admit_mail", **values)
        return cast("MailRefusal | None", refusal)


# -- schedules ---------------------------------------------------------------------------------------------------------


class ScheduleStore(StoreCalls):
    """Schedules of all orgs. Each verb is one atomic change."""

    async def add(self, new: Schedule) -> bool:
        """Store a schedule; False where the org has one of that name already, or too many."""
        return bool(await self._call("add_schedule", **asdict(new), most=MOST_SCHEDULES))

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        """Replace a schedule as it was at `seen_at`; False where it has changed since or is gone."""
        return bool(await self._call("change_schedule", **asdict(changed), seen_at=seen_at))

    async def remove(self, org_id: str, name: str) -> bool:
        """Remove a schedule; its jobs stay. False where there is none."""
        return bool(await self._call("remove_schedule", org_id=org_id, name=name))

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        """Return when the first schedule of these analyses is due that no process fires; perhaps in the past."""
        [(at,)] = await self._rows("next_planned", analyses=list(analyses))
        return cast("Instant | None", at)

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        """Return due schedules of these analyses, and keep other processes from them for so many seconds."""
        values = {"analyses": list(analyses), "held": after(0, seconds), "most": most}
        return [schedule_from(row) for row in await self._call("claim_schedules", **values)]

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        """Return the schedules, by org and name, of which an earlier run than the planned one has not ended."""
        if not runs:
            return set()
        rows = json_text([run._asdict() for run in runs])
        return {(org_id, name) for org_id, name in await self._rows("unfinished_runs", rows=rows)}

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        """Record what became of due runs, and when the next ones are; return how many were still due."""
        return len(await self._call("advance_schedules", rows=json_text(ends)))

    async def of_code(self) -> list[Schedule]:
        """Return the schedules that come with code."""
        return [schedule_from(row) for row in await self._rows("code_schedules")]
