"""Changes of a store file from outside, as another process would make them, and some that no program makes."""

from pathlib import Path

import apsw

from tests.support.writable import make_writable


def lengthen_log(store: Path, job_id: str, count: int, size: int) -> int:
    """Adds events with payloads of a size to a job's log; returns the number of the last."""
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
    """Runs statements in one transaction."""
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(60_000)
    make_writable(connection)
    try:
        with connection:
            for statement in statements:
                connection.execute(statement)
    finally:
        connection.close()
