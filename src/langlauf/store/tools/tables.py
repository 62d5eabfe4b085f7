"""The tables of truth, with the columns that every store keeps: what is not here can be made from what is."""

from typing import NamedTuple

from langlauf.domain.delivery import DeliveryAttempt, Notification
from langlauf.domain.event import Event
from langlauf.domain.job import JobRecord
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.result import Snapshot
from langlauf.domain.schedule import SCHEDULE_FIELDS, Pause


class Table(NamedTuple):
    """A table whose rows are the same in every store."""

    name: str
    columns: tuple[str, ...]


#: Jobs come before what belongs to them.
TABLES = (
    # A job's record has no read mark: that is about the message of its end.
    Table("jobs", (*JobRecord.__struct_fields__, "read_at")),
    Table("job_inputs", ("org_id", "job_id", "queued_at", "payload")),
    Table("job_events", Event.__struct_fields__),
    Table("job_results", (*Snapshot.__struct_fields__, "payload", "views", "schema_text")),
    # In-app messages about the end of a job are derived from the job, and are in no table.
    Table("outbox", Notification.__struct_fields__),
    Table("delivery_attempts", DeliveryAttempt.__struct_fields__),
    Table("delivery_lanes", ("org_id", "lane", "failures", "failing_since", "paused_until")),
    Table("job_wishes", ("org_id", "job_id", "channel", "target", "lane", "language")),
    Table(
        "webhook_endpoints",
        (
            "org_id",
            "endpoint_id",
            "url",
            "name",
            "subjects",
            "created_at",
            "version",
            "former_until",
            "disabled_at",
            "disabled_reason",
        ),
    ),
    Table("schedules", SCHEDULE_FIELDS),
    Table("mail_marks", ("org_id", "address", "mark", "at")),
    Table("inbox_marks", ("org_id", "read_until")),
    Table("job_chunks", ("org_id", "job_id", "chunk_key", "payload", "created_at", "total")),
    Table("leases", ("org_id", "job_id", "attempt", "worker_id", "expires_at", "deadline_at")),
    Table("idempotency_keys", ("org_id", "idempotency_key", "job_id", "payload_hash", "created_at")),
    Table("pace", ("analysis", "runs", "mean_seconds")),
    Table("pauses", Pause.__struct_fields__),
    Table("codes", ("code", *CodeVersion.__struct_fields__, "seen_at")),
    Table("imports", ("file_name", "sha256", "imported_at", "jobs")),
    Table(
        "api_keys",
        (
            "key_id",
            "org_id",
            "name",
            "secret_hash",
            "scopes",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
            "version",
        ),
    ),
    Table("signing_secrets", ("purpose", "secret", "created_at")),
    Table("ended_sessions", ("session_id", "expires_at", "number")),
)
BY_NAME = {table.name: table for table in TABLES}
