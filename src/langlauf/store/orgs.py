"""What every store promises about an org as a whole: what there is of it, and how it is taken away.

Which tables have rows of orgs is asked of the database itself, so that one that comes later is not forgotten.
"""

from typing import Protocol

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
