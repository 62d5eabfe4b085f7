"""Many submissions under one key at the same time: one job, and the same answer for everybody."""

import asyncio
import uuid
from collections import Counter

import httpx2

from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, never
from tests.support.server import serving

_PARALLEL = 200
_FULL_ROUNDS = 50
_LIMITS = httpx2.Limits(max_connections=_PARALLEL, max_keepalive_connections=_PARALLEL)


async def run(plan: Plan) -> list[Figure]:
    """Rounds of submissions under one key each; half of them in the bare form of the key, half in the quoted one."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    rounds = plan.times(_FULL_ROUNDS)
    statuses: Counter[int] = Counter()
    single = firsts = made = 0
    settings = {"LANGLAUF_LEASE_SECONDS": "15"}
    with serving(plan.folder / "store.db", settings=settings) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False, limits=_LIMITS) as http:
            for number in range(rounds):
                answers = await _round(http)
                statuses.update(answer.status_code for answer in answers)
                good = [answer for answer in answers if answer.status_code in (200, 202)]
                ids = {answer.json().get("job_id") or answer.json()["job"]["job_id"] for answer in good}
                single += len(ids) == 1
                firsts += sum("idempotent-replayed" not in answer.headers for answer in good) == 1
                plan.watch(number + 1, rounds)
            made = await _jobs(http)
    return [
        at_least("submissions", sum(statuses.values()), _PARALLEL),
        never("answered with 5xx", sum(count for status, count in statuses.items() if status >= 500), statuses.total()),
        all_of("answered with the job", statuses[200] + statuses[202], statuses.total()),
        all_of("rounds with one job for all", single, rounds),
        all_of("rounds in which one answer was the first", firsts, rounds),
        never("jobs too many", made - rounds, statuses.total()),
    ]


async def _round(http: httpx2.AsyncClient) -> list[httpx2.Response]:
    key = uuid.uuid4().hex
    body = {"analysis": "echo", "input": {"value": key}}

    async def submit(number: int) -> httpx2.Response:
        shown = f'"{key}"' if number % 2 else key
        return await http.post("/analyze", json=body, headers={"Prefer": "respond-async", "Idempotency-Key": shown})

    return await asyncio.gather(*(submit(number) for number in range(_PARALLEL)))


async def _jobs(http: httpx2.AsyncClient) -> int:
    answer = await http.get("/analyze/jobs", params={"limit": 200})
    return len(answer.json()["jobs"])
