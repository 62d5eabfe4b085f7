"""Ways to break a promise on purpose, each with the tests of `make test` that must see it."""

from typing import NamedTuple

_SQLITE = "src/langlauf/store/sqlite/"


class Sabotage(NamedTuple):
    """Edits of one file, and the tests to run."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


KINDS = (
    Sabotage(
        "take the fence from one write",
        _SQLITE + "writes.sql",
        (("OR :step <> coalesce(step, '')) AND {fence}", "OR :step <> coalesce(step, ''))"),),
        ("tests/store_contract/test_record.py",),
    ),
    Sabotage(
        "skip the fsync",
        _SQLITE + "connection.py",
        (("PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF"),),
        ("tests/faults/test_power.py",),
    ),
    Sabotage(
        "answer 202 before the commit",
        _SQLITE + "driver.py",
        (
            (
                '            connection.execute("COMMIT")\n',
                (
                    '            late = __import__("time").sleep\n'
                    '            self._writer_thread.submit(lambda: (late(0.05), connection.execute("COMMIT")))\n'
                ),
            ),
        ),
        ("tests/faults/test_power.py",),
    ),
    Sabotage(
        "drop an event",
        _SQLITE + "ending.py",
        (
            (
                "tx.event(lease.org_id, lease.job_id, seq, EventType.COMPLETED,",
                "_ = (lease.org_id, lease.job_id, seq, EventType.COMPLETED,",
            ),
        ),
        ("tests/store_contract/test_record.py",),
    ),
    Sabotage(
        "let progress fall",
        _SQLITE + "writes.sql",
        (("max(progress_percent, :percent)", ":percent"),),
        ("tests/simulation/test_schedules.py", "tests/store_contract/test_record.py"),
    ),
    Sabotage(
        "read without org",
        _SQLITE + "reads.sql",
        (
            (
                "LEFT JOIN leases AS lease USING (org_id, job_id)\nWHERE job.org_id = :org_id AND job.job_id = :job_id",
                "LEFT JOIN leases AS lease USING (org_id, job_id)\nWHERE :org_id = :org_id AND job.job_id = :job_id",
            ),
        ),
        ("tests/store_contract/test_reads.py",),
    ),
    Sabotage(
        "accept a second final",
        _SQLITE + "writes.sql",
        (
            (
                (
                    "DELETE FROM leases WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt"
                    " AND expires_at > :now"
                ),
                "UPDATE jobs SET updated_at = updated_at WHERE org_id = :org_id AND job_id = :job_id",
            ),
            (
                (
                    "estimated_seconds = 0\nWHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt"
                    " AND status IN ('running', 'partial')"
                ),
                "estimated_seconds = 0\nWHERE org_id = :org_id AND job_id = :job_id",
            ),
        ),
        ("tests/store_contract/test_record.py",),
    ),
    Sabotage(
        "retry a permanent error",
        "src/langlauf/domain/outcome.py",
        (("transient=isinstance(error, TransientError)", "transient=True"),),
        ("tests/worker/test_worker.py",),
    ),
    Sabotage(
        "ignore a cancel",
        "src/langlauf/worker/heartbeat.py",
        (("                attempt.stop(Stop.CANCEL)\n", "                pass\n"),),
        ("tests/http/test_jobs.py", "tests/worker/test_worker.py"),
    ),
    Sabotage(
        "keep an expired lease",
        _SQLITE + "writes.sql",
        (
            (
                "AND attempt = :attempt AND expires_at > :now\nRETURNING (SELECT CASE WHEN cancel",
                "AND attempt = :attempt AND :now = :now\nRETURNING (SELECT CASE WHEN cancel",
            ),
        ),
        ("tests/simulation/test_schedules.py", "tests/store_contract"),
    ),
    Sabotage(
        "send a webhook to a private address",
        "src/langlauf/domain/addresses.py",
        (('return None if name is None else f"inside a network ({name})"', "return None"),),
        ("tests/unit/domain", "tests/delivery/test_rebinding.py"),
    ),
    Sabotage(
        "leak a trace",
        "src/langlauf/http/presenting.py",
        (('    meta.pop("trace", None)\n', ""),),
        ("tests/http",),
    ),
)
