"""Changes of a SQLite store past the program: as another process would make them, and some that no program makes."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import apsw


class _View(NamedTuple):
    """The table behind a view, how a row of the view finds its own there, and columns that are kept differently."""

    table: str
    own: str
    kept: Mapping[str, str] = MappingProxyType({})
    #: what a row of the table is not found by, and is not changed
    fixed: frozenset[str] = frozenset()


#: The triggers that guard tables; those of views write what is brought.
GUARDS = (
    "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
    " AND tbl_name IN (SELECT name FROM sqlite_schema WHERE type = 'table')"
)
_JOB = "job = OLD.row"
_CLASS = "CASE NEW.priority_class WHEN 'default' THEN 0 WHEN 'expedite' THEN 1 ELSE 2 END"
_VIEWS = {
    "jobs": _View(
        "job_rows",
        _JOB,
        {
            "org_id": "org = (SELECT org FROM orgs WHERE org_id = NEW.org_id)",
            "analysis": "analysis = (SELECT analysis FROM analyses WHERE name = NEW.analysis)",
            "priority_class": f"expedite = {_CLASS}",
            "request_payload_hash": "payload_hash = coalesce(unhex(NEW.request_payload_hash), x'00')",
            "request_payload_ref": "payload_ref = nullif(NEW.request_payload_ref, 'inline:')",
        },
        frozenset({"row", "org"}),
    ),
    "job_inputs": _View(
        "job_rows", _JOB, {"payload": "input = NEW.payload"}, frozenset({"org_id", "job_id", "queued_at", "row"})
    ),
    "leases": _View(
        "job_rows", _JOB, {"expires_at": "lease_expires_at = NEW.expires_at"}, frozenset({"org_id", "job_id", "row"})
    ),
    "job_events": _View(
        "event_rows", "job = OLD.row AND event_seq = OLD.event_seq", {}, frozenset({"org_id", "job_id", "row"})
    ),
    "job_results": _View(
        "result_rows",
        "result = OLD.row",
        {"result_payload_ref": "payload_ref = nullif(NEW.result_payload_ref, 'inline:')"},
        frozenset({"org_id", "job_id", "row"}),
    ),
    "job_chunks": _View("chunk_rows", "chunk = OLD.row", {}, frozenset({"org_id", "job_id", "row"})),
    "idempotency_keys": _View("key_rows", _JOB, {}, frozenset({"org_id", "job_id", "payload_hash", "row"})),
    "notifications": _View(
        "outbox", "org_id = OLD.org_id AND notification_id = OLD.notification_id", {}, frozenset({"org_id"})
    ),
    "lanes": _View(
        "lane_rows",
        "org = (SELECT org FROM orgs WHERE org_id = OLD.org_id)"
        " AND analysis = (SELECT analysis FROM analyses WHERE name = OLD.analysis)",
        {},
        frozenset({"org_id", "analysis"}),
    ),
    "waiting_counts": _View("analyses", "name = OLD.analysis", {}, frozenset({"analysis"})),
}
#: What the deletion of a record is, where that is not the deletion of a row.
_DELETIONS = {
    "leases": "UPDATE job_rows SET worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL WHERE job = OLD.row",
    "job_inputs": "UPDATE job_rows SET input = NULL WHERE job = OLD.row; DELETE FROM inputs WHERE job = OLD.row",
}


def make_writable(connection: apsw.Connection) -> None:
    """For this connection alone; the triggers of the tables stay as they are. A bare file has no views."""
    views = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'view'")}
    for name in views & set(_VIEWS):
        view = _VIEWS[name]
        columns = [row[1] for row in connection.execute(f"PRAGMA main.table_info({name})")]
        for column in columns:
            if column not in view.fixed:
                change = view.kept.get(column, f"{column} = NEW.{column}")
                connection.execute(
                    f"CREATE TEMP TRIGGER {name}_{column}_changes INSTEAD OF UPDATE OF {column} ON main.{name} "
                    f"BEGIN UPDATE {view.table} SET {change} WHERE {view.own}; END"
                )
        deletion = _DELETIONS.get(name, f"DELETE FROM {view.table} WHERE {view.own}")
        connection.execute(f"CREATE TEMP TRIGGER {name}_goes INSTEAD OF DELETE ON main.{name} BEGIN {deletion}; END")


def lengthen_log(store: Path, job_id: str, count: int, size: int) -> int:
    """Add events with payloads of a size to a job's log; return the number of the last."""
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(60_000)
    try:
        with connection:
            connection.execute(
                """WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
                INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type,
                    payload_json, trace_id, request_id)
                SELECT org_id, job_id, event_seq + n, printf('made-%d', n), 'job.progress', updated_at, 'worker',
                       json_object('text', replace(hex(zeroblob(:half)), '0', 'x')), trace_id, request_id
                FROM jobs CROSS JOIN numbers WHERE job_id = :job_id""",
                {"count": count, "half": size // 2, "job_id": job_id},
            )
            connection.execute("UPDATE job_rows SET event_seq = event_seq + ? WHERE job_id = ?", (count, job_id))
        last: int = connection.execute("SELECT event_seq FROM jobs WHERE job_id = ?", (job_id,)).get
        return last
    finally:
        connection.close()


def change(store: Path, *statements: str) -> None:
    """Run statements in one transaction."""
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(60_000)
    make_writable(connection)
    try:
        with connection:
            for statement in statements:
                connection.execute(statement)
    finally:
        connection.close()
