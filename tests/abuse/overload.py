"""More submissions than the server can take: it says no, keeps what it said yes to, and stays in touch."""

import asyncio
from collections.abc import Iterable

import httpx2

from tests.abuse.flood import flood
from tests.abuse.ordinary import Prober, slowest
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, never
from tests.support.server import serving

SETTINGS = {"LANGLAUF_LEASE_SECONDS": "15", "LANGLAUF_LIMITS": "max_submitting=100", "LANGLAUF_MAX_RUNNING": "8"}
_CAPACITY_CONNECTIONS = 100
_TIMES = 5
_FULL_SECONDS = 60
_MEMORY = 100 * 1_048_576


async def run(plan: Plan) -> list[Figure]:
    """Five times as many connections as submissions may be under way, each asking again at once."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    seconds = max(4.0, _FULL_SECONDS * plan.scale)
    with serving(plan.folder / "store.db", settings=SETTINGS) as server:
        before = _memory(server.process.pid)
        async with Prober(server.url) as prober:
            found = await flood(server.url, _TIMES * _CAPACITY_CONNECTIONS, seconds, plan.folder / "flood.json")
        grown = _memory(server.process.pid) - before
        kept = await _kept(server.url, found["accepted"])
    statuses = found["statuses"]
    refused = sum(count for status, count in statuses.items() if status in ("429", "503"))
    other = sum(statuses.values()) - statuses.get("202", 0) - refused
    plan.watch(1, 1)
    return [
        at_least("accepted", len(found["accepted"]), 100),
        at_least("refused with 429 or 503", refused, 1),
        never("answered in another way", other, sum(statuses.values())),
        never("refused without Retry-After", found["without_retry_after"], refused + other),
        all_of("accepted and still there", kept, len(found["accepted"])),
        measured("the longest submission", found["longest"], f"{found['longest']:.2f} s"),
        *prober.figures(slowest=slowest(plan)),
        at_most("memory that the server took", grown / 1_048_576, _MEMORY / 1_048_576, " MiB"),
    ]


def _memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - not a file of a disk
        return int(file.read().split()[1]) * 4_096


async def _kept(url: str, accepted: Iterable[str]) -> int:
    """How many of the accepted jobs the server still knows."""
    known: set[str] = set()
    async with httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        cursor: str | None = ""
        while cursor is not None:
            page = (await http.get("/analyze/jobs", params={"limit": 200, "cursor": cursor})).json()
            known |= {job["job_id"] for job in page["jobs"]}
            cursor = page["next_cursor"]
            await asyncio.sleep(0)
    return len(known & set(accepted))
