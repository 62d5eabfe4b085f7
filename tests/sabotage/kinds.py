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
        (("AND attempt = ?4 AND lease_expires_at > ?5 AND status", "AND ?4 AND ?5 AND status"),),
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
        _SQLITE + "engine.py",
        (
            (
                "await loop.run_in_executor(self._writer_thread, self._finish, len(batch))",
                (
                    "loop.run_in_executor(self._writer_thread, "
                    'lambda: (__import__("time").sleep(0.05), self._finish(len(batch))))'
                ),
            ),
        ),
        ("tests/faults/test_power.py",),
    ),
    Sabotage(
        "drop an event",
        _SQLITE + "transaction.py",
        (("self.event(key, event_seq, EventType.COMPLETED if", "self.event(key, event_seq, EventType.TIMEOUT if"),),
        ("tests/http/test_jobs.py", "tests/simulation/test_schedules.py"),
    ),
    Sabotage(
        "let progress fall",
        _SQLITE + "writes.sql",
        (("progress_percent = max(progress_percent, ?6)", "progress_percent = ?6"),),
        ("tests/simulation/test_schedules.py", "tests/store_contract/test_record.py"),
    ),
    Sabotage(
        "read without org",
        _SQLITE + "reads.sql",
        (
            (
                "FROM jobs AS job WHERE job.org_id = :org_id AND job.job_id = :job_id",
                "FROM jobs AS job WHERE :org_id = :org_id AND job.job_id = :job_id",
            ),
        ),
        ("tests/store_contract/test_reads.py",),
    ),
    Sabotage(
        "accept a second final",
        _SQLITE + "writes.sql",
        (
            (
                "AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')",
                "AND org = ?3 AND ?4 AND ?5",
            ),
            (
                "WHERE job = ?1 AND attempt = ?4 AND lease_expires_at > ?3 AND status IN ('running', 'partial')",
                "WHERE job = ?1 AND ?4",
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
        (("                attempt.stop(StopReason.CANCEL)\n", "                pass\n"),),
        ("tests/http/test_jobs.py", "tests/worker/test_worker.py"),
    ),
    Sabotage(
        "keep an expired lease",
        _SQLITE + "writes.sql",
        (
            (
                "AND attempt = :attempt AND lease_expires_at > :now\nRETURNING CASE WHEN cancel",
                "AND attempt = :attempt AND :now = :now\nRETURNING CASE WHEN cancel",
            ),
        ),
        ("tests/simulation/test_schedules.py", "tests/store_contract"),
    ),
    Sabotage(
        "send a webhook to a private address",
        "src/langlauf/domain/ssrf.py",
        (('return None if name is None else f"on a private network ({name})"', "return None"),),
        ("tests/unit/domain", "tests/delivery/test_rebinding.py"),
    ),
    Sabotage(
        "leak a trace",
        "src/langlauf/api/wire.py",
        (('    meta.pop("trace", None)\n', ""),),
        ("tests/http",),
    ),
)
