"""The database crashes, or its host is cut off, repeatedly under load: nothing is lost, no request waits long."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx2

from tests.faults.api import Api
from tests.faults.hosts import SOON, Hosts, hosts
from tests.faults.ledger import START
from tests.faults.load import Load
from tests.faults.plan import Plan
from tests.faults.promises import promises
from tests.faults.report import Figure, all_of, at_least, at_most, measured, measured_seconds, never
from tests.faults.verdicts import JobObservation, observe_jobs

_RESTARTS, _CUTS = 20, 5
_BETWEEN = (0.5, 2.5)
_DOWN = (0.0, 2.0)
#: Longer than the statement timeout.
_CUT = (5.0, 7.0)
_PROBES = 4
_PROBE_EVERY = 0.05
_UNFINISHED, _LONGEST_JOB = 36, 0.8
_TIMEOUT = 60.0
_RETRY_AFTER = "retry-after"


#: Makes the database go away and come back; returns when.
Break = Callable[[Hosts, random.Random], Awaitable[tuple[float, float]]]


class Probe(NamedTuple):
    """One submission: its time, duration and response."""

    at: float
    seconds: float
    status: int
    says_when: bool
    job_id: str | None

    @property
    def answered_at(self) -> float:
        """When the response arrived."""
        return self.at + self.seconds


class Outage(NamedTuple):
    """An outage of the database, and how long the recovery took."""

    gone_at: float
    back_at: float
    accepted_after: float
    started_after: float


async def run(plan: Plan) -> list[Figure]:
    """Crashes and restarts, then silence, under a load."""
    restarts, cuts = plan.times(_RESTARTS), plan.times(_CUTS)
    chance = plan.chance("restarts")
    outages: list[Outage] = []
    async with hosts(plan, "restarts") as fleet, Api(fleet) as api:
        await asyncio.gather(fleet.serve(), fleet.work(), fleet.work())
        load = Load(api, fleet.ledger, chance, unfinished=_UNFINISHED, longest=_LONGEST_JOB)
        async with load, _probing(api) as probes:
            for number in range(restarts + cuts):
                outage = _restart if number < restarts else _cut
                await asyncio.sleep(chance.uniform(*_BETWEEN))  # the moment is the point
                outages.append(await _through(fleet, outage, chance, probes))
                plan.watch(number + 1, restarts + cuts)
        by_probes = [probe.job_id for probe in probes if probe.job_id is not None]
        accepted = [*load.accepted, *by_probes]
        seen = await observe_jobs(api, accepted, seconds=_TIMEOUT)
        unknown = len(await api.jobs()) - len(set(accepted))
        await fleet.stop()
        sound = await fleet.sound()
    return [
        at_least("crashes of the database", restarts, plan.times(_RESTARTS)),
        at_least("cuts of its host", cuts, plan.times(_CUTS)),
        *_answers(probes, outages),
        *_recovery(outages),
        measured("answers lost in an outage and told again under their key", load.replayed),
        measured("jobs that were made although the answer was 503, without a key", unknown),
        *promises(list(seen.values())),
        measured("error codes of the others", *_codes(list(seen.values()))),
        all_of("databases that are sound", int(sound), 1),
    ]


async def _restart(fleet: Hosts, chance: random.Random) -> tuple[float, float]:
    gone_at = time.monotonic()
    await asyncio.to_thread(fleet.server.stop, "immediate")
    await asyncio.sleep(chance.uniform(*_DOWN))
    await asyncio.to_thread(fleet.server.start)
    return gone_at, time.monotonic()


async def _cut(fleet: Hosts, chance: random.Random) -> tuple[float, float]:
    gone_at = time.monotonic()
    fleet.database.cut()
    await asyncio.sleep(chance.uniform(*_CUT))
    fleet.database.heal()
    return gone_at, time.monotonic()


async def _through(fleet: Hosts, outage: Break, chance: random.Random, probes: list[Probe]) -> Outage:
    """Run one outage until submissions are accepted and jobs start again."""
    gone_at, back_at = await outage(fleet, chance)

    def accepted() -> list[float]:
        return [one.answered_at for one in probes if one.job_id is not None]

    def started() -> list[float]:
        return [line.at for line in fleet.ledger.lines if line.kind == START]

    def after(moments: list[float]) -> float:
        return min((moment - back_at for moment in moments if moment > back_at), default=float("inf"))

    await fleet.ledger.until(lambda: max(after(accepted()), after(started())) < _TIMEOUT, _TIMEOUT)
    return Outage(gone_at, back_at, after(accepted()), after(started()))


@asynccontextmanager
async def _probing(api: Api) -> AsyncIterator[list[Probe]]:
    """Submit without a key all the time, and record each response."""
    probes: list[Probe] = []
    over = asyncio.Event()

    async def one() -> None:
        while not over.is_set():
            at = time.monotonic()
            answer = await api.post("nap", input={"seconds": 0})
            job_id = answer.json()["job"]["job_id"] if answer.status_code == httpx2.codes.ACCEPTED else None
            seconds = time.monotonic() - at
            probes.append(Probe(at, seconds, answer.status_code, _RETRY_AFTER in answer.headers, job_id))
            await asyncio.sleep(_PROBE_EVERY)

    async with asyncio.TaskGroup() as group:
        for _ in range(_PROBES):
            group.create_task(one())
        yield probes
        over.set()


def _answers(probes: Sequence[Probe], outages: Sequence[Outage]) -> list[Figure]:
    refused = [probe for probe in probes if probe.status == httpx2.codes.SERVICE_UNAVAILABLE]
    others = [probe for probe in probes if probe.job_id is None and probe not in refused]
    hit = [
        probe for probe in probes if any(one.gone_at < probe.answered_at and probe.at < one.back_at for one in outages)
    ]
    return [
        at_least("submissions under way during an outage", len(hit), len(outages)),
        # A short crash is waited out, and no request is refused.
        at_least("of them answered with 503", len(refused), 0),
        never("answers that are neither 202 nor 503", len(others), len(probes)),
        *(
            [all_of("503 that say when to come again", sum(one.says_when for one in refused), len(refused))]
            * bool(refused)
        ),
        at_most("longest answer during an outage", max((one.seconds for one in hit), default=0.0), SOON, " s"),
    ]


def _recovery(outages: Sequence[Outage]) -> list[Figure]:
    return [
        at_most("longest until a submission is accepted again", max(one.accepted_after for one in outages), SOON, " s"),
        at_most("longest until a job starts again", max(one.started_after for one in outages), SOON, " s"),
        measured_seconds("longest outage", max(one.back_at - one.gone_at for one in outages)),
    ]


def _codes(seen: Sequence[JobObservation]) -> tuple[int, str]:
    """Return how many jobs failed, by code."""
    codes = [one.job["error_code"] for one in seen if one.job is not None and one.job["error_code"]]
    return len(codes), ", ".join(sorted(set(codes))) or "none"
