"""One org with every means at once, and what the others notice of it.

The same clients of other orgs are measured alone and then beside the attack, which is in a process of its own
(`hostile_tenant`), with its receivers of mail and webhooks.
"""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import httpx2

from tests.abuse.hostile_tenant import measure
from tests.abuse.ordinary import Asking, percentile
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, measured_seconds, never
from tests.support.server import ServerProcess, serving

#: As an operator has it who sets nothing, with mail and webhooks to this machine. The limit of synchronous requests is
#: short, so that they come and go many times.
SETTINGS = {
    "LANGLAUF_LEASE_SECONDS": "15",
    "LANGLAUF_MAX_RUNNING": "8",
    "LANGLAUF_RETRY_BASE": "1",
    "LANGLAUF_SWEEP_SECONDS": "5",
    "LANGLAUF_SYNC_LIMIT": "3",
    "LANGLAUF_WEBHOOK_ALLOW": "127.0.0.0/8",
    "LANGLAUF_WEBHOOK_SECRET": "whsec_bGFuZ2xhdWYtaG9zdGlsZS10ZW5hbnQtc2VjcmV0",
    "LANGLAUF_WEBHOOK_SECONDS": "5",
    "LANGLAUF_MAIL_FROM": "jobs@example.org",
}
APP = "tests.abuse.hostile_app:app"
KINDS = ("submit", "poll", "/health")
#: How many times their own p99 the others' answers may take.
MOST_TIMES = 3.0
_ORGS = 3
_FULL_SECONDS = 60
_PATIENCE = 120.0
#: What the log of one job may have, without the room that is kept for its end.
_MOST_EVENTS = 99_900


class OtherOrg(Asking):
    """A client of another org: submits, polls and asks for /health, and remembers which jobs were accepted."""

    def __init__(self, url: str, org: str) -> None:
        super().__init__(url)
        self.org = org
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[int] = Counter()
        self.accepted: list[str] = []

    async def _round(self) -> None:
        body = {"analysis": "echo", "input": {"value": uuid.uuid4().hex}}
        answer = await self._ask("submit", "POST", "/analyze", json=body)
        if answer is not None and answer.status_code == httpx2.codes.ACCEPTED:
            self.accepted.append(answer.json()["job"]["job_id"])
            await self._ask("poll", "GET", f"/analyze/jobs/{self.accepted[-1]}")
        await self._ask("/health", "GET", "/health")

    async def _ask(self, kind: str, method: str, path: str, **more: object) -> httpx2.Response | None:
        began = time.monotonic()
        try:
            headers = {"Prefer": "respond-async", "X-Org-Id": self.org}
            answer = await self._http.request(method, path, headers=headers, **more)  # type: ignore[arg-type]  # json alone
        except httpx2.TransportError as error:
            self.failed.append(f"{method} {path}: {error!r}")
            return None
        finally:
            self.took[kind].append(time.monotonic() - began)
            await asyncio.sleep(self.pause)
        self.statuses[answer.status_code] += 1
        return answer


async def run(plan: Plan) -> list[Figure]:
    """The others alone, then beside the attack, then until the last of their jobs has ended."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    seconds = max(8.0, _FULL_SECONDS * plan.scale)
    async with _attacker(seconds, plan.scale) as attacker:
        said = await _line_of(attacker)
        places = {
            "LANGLAUF_SMTP": f"smtp://127.0.0.1:{said['mail']}?tls=none",
            # One file takes one write at a time: who serves strangers keeps their large results beside it.
            "LANGLAUF_BLOBS": str(plan.folder / "blobs"),
        }
        store = plan.folder / "store.db"
        with serving(store, app=APP, settings=SETTINGS | places, own_session=True) as server:
            alone = await _measured(server, asyncio.sleep(seconds / 3))
            plan.watch(1, 3)
            beside = await _measured(server, _attack(attacker, server))
            plan.watch(2, 3)
            others = [*alone.clients, *beside.clients]
            completed, longest = await _ends(server, others)
            plan.watch(3, 3)
    return [
        *_means(plan, beside.said),
        *_answers(plan, alone, beside),
        all_of("jobs of the others that completed", completed, sum(len(one.accepted) for one in others)),
        measured_seconds("until the last of them had, from the end of the attack", longest),
    ]


class Measured:
    """What the clients of the other orgs found while something went on."""

    def __init__(self, clients: list[OtherOrg], said: dict[str, Any]) -> None:
        self.clients = clients
        #: by the attacker
        self.said = said

    def times(self, kind: str) -> list[float]:
        """What all of them waited for one kind of answer."""
        return [one for client in self.clients for one in client.took[kind]]


async def _measured(server: ServerProcess, meanwhile: Awaitable[dict[str, Any] | None]) -> Measured:
    clients = [OtherOrg(server.url, f"other-{number}") for number in range(_ORGS)]
    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        said = await meanwhile
    return Measured(clients, said or {})


async def _attack(attacker: asyncio.subprocess.Process, server: ServerProcess) -> dict[str, Any]:
    assert attacker.stdin is not None
    attacker.stdin.write(f"{server.url}\n".encode())
    return await _line_of(attacker)


@contextlib.asynccontextmanager
async def _attacker(seconds: float, scale: float) -> AsyncIterator[asyncio.subprocess.Process]:
    words = [sys.executable, "-m", "tests.abuse.hostile_tenant", str(seconds), str(scale)]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _line_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "the hostile tenant broke down"
    found: dict[str, Any] = json.loads(line)
    return found


async def _ends(server: ServerProcess, clients: list[OtherOrg]) -> tuple[int, float]:
    """How many of the accepted jobs completed, and how long the last one took from now on."""
    began = time.monotonic()
    completed = 0
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:
        for client in clients:
            for job_id in client.accepted:
                completed += await _completes(http, client.org, job_id, began + _PATIENCE)
    return completed, time.monotonic() - began


async def _completes(http: httpx2.AsyncClient, org: str, job_id: str, until: float) -> bool:
    while True:
        answer = await http.get(f"/analyze/jobs/{job_id}", params={"wait": 10}, headers={"X-Org-Id": org})
        status = answer.json()["job"]["status"] if answer.status_code == httpx2.codes.OK else None
        if status in ("completed", "failed", "canceled") or time.monotonic() > until:
            return status == "completed"
        if status is None:
            await asyncio.sleep(0.5)


def _means(plan: Plan, found: dict[str, Any]) -> list[Figure]:
    """That every means was really used, most of it in a whole run: without them nothing is shown."""
    used, much = found["used"], measure(plan.scale)
    share = 2 if plan.scale >= 1 else 20
    least = {
        "synchronous requests": much.sync_connections,
        "streams by one token": much.streams,
        "jobs with a tiny timeout and many retries": max(1, much.retried_jobs // share),
        "cyclic results": max(1, much.cyclic_jobs // share),
        "results of 64 MiB": 1,
        "bytes read of them": 1_000_000,
        "events of one job": min(_MOST_EVENTS, much.reports) // share,
        "jobs that tell by mail and webhook": max(1, much.told_jobs // share),
        "webhooks that arrived": 1,
        "mails that arrived": 1,
    }
    answers = ", ".join(f"{count:,} {what}" for what, count in sorted(found["answers"].items()))
    return [
        *(at_least(f"{what}: means used", used.get(what, 0), count) for what, count in least.items()),
        measured("what the hostile org was answered", sum(found["answers"].values()), answers),
        measured("means that broke down", len(found["troubles"]), "; ".join(found["troubles"]) or "0"),
    ]


def _answers(plan: Plan, alone: Measured, beside: Measured) -> list[Figure]:
    """What the others were answered, and how much longer that took than without the attack."""
    figures = []
    for kind in KINDS:
        own, now = percentile(alone.times(kind), 0.99), percentile(beside.times(kind), 0.99)
        count = len(beside.times(kind))
        limit = max(MOST_TIMES, _leeway(plan) / own)
        figures += [
            measured(f"{kind}: p99 of the others without and with", now, f"{own:.4f} and {now:.4f} s of {count:,}"),
            at_most(f"{kind}: p99 of the others with by without", now / own, limit, " times"),
        ]
    statuses = sum((one.statuses for one in beside.clients), Counter[int]())
    asked = sum(statuses.values())
    failed = sum(len(one.failed) for one in beside.clients)
    return [
        *figures,
        at_least("requests of the others", asked, 100),
        never("answered to the others with 5xx", sum(n for status, n in statuses.items() if status >= 500), asked),
        never("refused to the others with 4xx", sum(n for status, n in statuses.items() if 400 <= status < 500), asked),
        never("connections of the others that failed", failed, asked),
    ]


def _leeway(plan: Plan) -> float:
    """A share that runs among other tests has no machine of its own: seconds that are never too long for it."""
    return 0.0 if plan.scale >= 1 else 3.0
