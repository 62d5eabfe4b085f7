"""Coroutines that block the event loop, and a killed worker: the API responds, and no job has two owners."""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2

from tests.faults.api import Api, Record
from tests.faults.fleet import Fleet, Program, verified
from tests.faults.ledger import SHARED
from tests.faults.plan import Plan
from tests.faults.report import Figure, all_of, at_least, at_most, measured, never
from tests.faults.verdicts import observe_jobs
from tests.support.event_stream import Stream, port_of
from tests.support.processes import worker_processes

#: A share of the rounds runs beside other tests: a busy machine renews a short lease too late.
_LEASE, _LEASE_BESIDE_OTHERS = 2.0, 6.0
SWEEP = 0.3
_SLACK = 1.0
_ROUNDS = 50
_WAYS = ("sleep", "lock", "kill")
#: How long a coroutine blocks: past its lease, when it is stopped, and within one.
_BLOCK_SECONDS = 30
_TIMEOUT = 60.0
_BETWEEN_PROBES = 0.01
#: Of `/health`, in milliseconds. A share of the rounds runs beside other tests, on a busy machine.
_LIMIT, _LIMIT_BESIDE_OTHERS = 100.0, 1_000.0
_PLACE = re.compile(r"its event loop blocked for \d+\.\d s in faults/plain_probes\.py:\d+")
SETTINGS = {"LANGLAUF_SWEEP_SECONDS": str(SWEEP), "LANGLAUF_POLL_SECONDS": "0.1"}
_LONG_LEASE = {"LANGLAUF_LEASE_SECONDS": str(4 * _BLOCK_SECONDS)}


class Round(NamedTuple):
    """One blocking coroutine or killed worker, and its neighbour on the same loop."""

    way: str
    neighbour: str
    job: Record
    #: of the first attempt
    crash: str
    #: from the end of the worker to the next start of the neighbour, if it was killed
    again_after: float | None
    #: whether the neighbour's stream lasted to the end of its job
    lasted: bool


async def run(plan: Plan) -> list[Figure]:
    """Block the loop, with or without the interpreter lock, or kill the worker, while a client requests /health."""
    plan = plan._replace(app="tests.faults.plain_probes:app")
    wanted = max(len(_WAYS), plan.times(_ROUNDS))
    health: list[float] = []
    lease = _LEASE if plan.scale >= 1 else _LEASE_BESIDE_OTHERS
    settings = {**SETTINGS, "LANGLAUF_LEASE_SECONDS": str(lease)}
    async with Fleet(plan, "watchdog", settings) as fleet, Api(fleet) as api:
        server = await fleet.serve(1)
        async with _probing(server, health):
            rounds = []
            for number in range(wanted):
                rounds.append(await _round(fleet, api, server, number))
                plan.watch(number + 1, wanted)
        seen = await observe_jobs(api, [one.neighbour for one in rounds], seconds=_TIMEOUT)
        shared = sum(line.kind == SHARED for line in fleet.ledger.lines)
        await fleet.stop()
        sound = await verified(fleet.store)
    async with Fleet(plan, "patience", _LONG_LEASE) as fleet, Api(fleet) as api:
        server = await fleet.serve(1)
        async with _probing(server, health):
            let = await _block(api, "sleep", plan.times(_BLOCK_SECONDS))
        await fleet.stop()
    limit = _LIMIT if plan.scale >= 1 else _LIMIT_BESIDE_OTHERS
    health.sort()
    neighbours = [one.job for one in seen.values() if one.job is not None]
    lost = [job["attempt"] - 1 for job in neighbours]
    blocked = [one for one in rounds if one.way != "kill"]
    named = sum(_PLACE.search(one.crash) is not None for one in blocked)
    again = [one.again_after for one in rounds if one.again_after is not None]
    return [
        at_least("coroutines that blocked the event loop past their lease", len(blocked), wanted * 2 // 3),
        at_least("workers killed", len(again), wanted // 3),
        all_of("blocks that the job names with file and line", named, len(blocked)),
        never("two owners at once", shared, len(rounds)),
        all_of("jobs completed by their next attempt", sum(map(_completed, rounds)), len(rounds)),
        all_of("neighbours completed", sum(job["status"] == "completed" for job in neighbours), len(rounds)),
        never("neighbours that lost more than one attempt", sum(one > 1 for one in lost), len(rounds)),
        measured("attempts that neighbours lost", sum(lost)),
        all_of("streams that lasted until their job ended", sum(one.lasted for one in rounds), len(rounds)),
        at_most("longest from the end of a worker to the next start", max(again), lease + SWEEP + _SLACK, " s"),
        all_of("blocks within the lease that are let", int((let["status"], let["attempt"]) == ("completed", 1)), 1),
        at_least("requests for /health meanwhile", len(health), 100 * wanted // 5),
        at_most("/health, p99", health[int(len(health) * 0.99)], limit, " ms"),
        measured("/health, slowest", round(health[-1]), f"{health[-1]:.0f} ms"),
        all_of("stores that verify calls sound", int(sound), 1),
    ]


@asynccontextmanager
async def _probing(server: Program, took: list[float]) -> AsyncIterator[None]:
    """Request /health all the time, and record the duration of each response in milliseconds."""

    async def probe(http: httpx2.AsyncClient) -> None:
        while True:
            began = time.perf_counter()
            answer = await http.get("/health")
            took.append((time.perf_counter() - began) * 1_000)
            assert answer.status_code == httpx2.codes.OK, answer.text
            await asyncio.sleep(_BETWEEN_PROBES)

    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=_TIMEOUT) as http:
        probing = asyncio.create_task(probe(http))
        try:
            yield
        finally:
            if probing.done():
                probing.result()
            probing.cancel()


async def _round(fleet: Fleet, api: Api, server: Program, number: int) -> Round:
    way, gate = _WAYS[number % len(_WAYS)], fleet.folder / f"gate-{number}"
    neighbour = (await api.submit("stay", input={"gate": str(gate)}))["job_id"]
    await fleet.ledger.until(lambda: neighbour in fleet.ledger.latest(), _TIMEOUT)
    stream = await Stream.open(port_of(server.url), neighbour)
    again_after = await _kill_worker(fleet, server, neighbour) if way == "kill" else None
    job = await _block(api, "none" if way == "kill" else way, _BLOCK_SECONDS)
    gate.touch()
    lasted = await _lasted(stream)
    crashes = [event["payload_json"].get("crash") for event in await api.events(job["job_id"]) if event["payload_json"]]
    return Round(way, neighbour, job, next(filter(None, crashes), ""), again_after, lasted)


async def _block(api: Api, how: str, seconds: float) -> Record:
    made = await api.submit("block", input={"how": how, "seconds": seconds})
    job = await api.ended(made["job_id"], _TIMEOUT)
    assert job is not None
    return job


async def _kill_worker(fleet: Fleet, server: Program, neighbour: str) -> float:
    """Kill the worker; return the seconds until the neighbour was started again."""
    [worker] = worker_processes(server.process.pid)
    killed_at = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    await fleet.ledger.until(lambda: fleet.ledger.latest()[neighbour].pid != worker, _TIMEOUT)
    return fleet.ledger.latest()[neighbour].at - killed_at


async def _lasted(stream: Stream) -> bool:
    """Whether the stream ended with its job."""
    try:
        events = await stream.rest()
    except (OSError, asyncio.IncompleteReadError, AssertionError):
        return False
    finally:
        stream.cut()
    return bool(events) and "completed" in events[-1].kind


def _completed(one: Round) -> bool:
    attempts = 1 if one.way == "kill" else 2
    return (one.job["status"], one.job["attempt"], one.job["retry_count"]) == ("completed", attempts, 0)
