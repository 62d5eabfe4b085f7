"""The lists. All jobs are one org's: in the first scene a few of the oldest failed, in the second all did.

Each failure has a message of its own. The pages are the worst in their way: filters that nothing fits, the far end of
the history, an inbox that nobody read.
"""

import time
from functools import partial
from pathlib import Path

from langlauf.store.sql import parse_queries
from tests.scale.fixture import Scene, filled_in

_MICROSECONDS_APART = 2_500_000
_SQL = parse_queries(Path(__file__).with_name("lists.sql").read_text("utf-8"))


def pages(jobs: int) -> tuple[str, ...]:
    """Everything that lists."""
    return (
        "/",
        "/jobs",
        "/jobs?status=completed",
        "/jobs?status=failed",
        "/jobs?status=queued",
        "/jobs?status=failed&analysis=analysis-1&error=code_1&range=30d",
        "/jobs?analysis=analysis-3",
        "/jobs?analysis=nobody",
        "/jobs?error=nobody",
        "/jobs?q=nowhere",
        "/jobs?status=failed&q=nowhere",
        f"/jobs?q=job-{2 * jobs}",
        "/errors?range=24h",
        "/errors?range=all",
        "/inbox",
        "/analyze/history?limit=50",
        f"/analyze/history?limit=50&offset={jobs - 1_050}",
        "/analyze/jobs?status=canceled&limit=200",
    )


def _statements(failed: str, jobs: int, postgres: bool) -> list[str]:
    more = ", queued_at" if postgres else ""
    words = {
        "failed": failed,
        "now": str(time.time_ns() // 1_000),
        "apart": f"CAST({_MICROSECONDS_APART} AS bigint)",
        "input_more": more,
        "input_values": more,
    }
    # What a file tells people of an end follows from the job.
    wanted = [sql for name, sql in _SQL.items() if postgres or name != "fill_messages"]
    return [filled_in(sql, words, jobs, postgres=postgres) for sql in wanted]


SCENES = (
    Scene("one org, the oldest thousand failed", partial(_statements, "n <= 1000"), pages),
    Scene("one org, all failed", partial(_statements, "n > 0"), pages),
)
