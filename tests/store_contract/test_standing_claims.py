"""What a standing claim starts with the submission is what a claim right after it would have started.

Each scene is played twice, with the same jobs: once the claim stands and is part of the transaction that accepts them,
once it comes afterwards. Where nothing else waits, the store writes such jobs as started at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from langlauf.clock import new_id
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.instant import after
from langlauf.domain.job import Accepted, NewJob, ReuseRule
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.schedule import PauseRequest
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.standing import Standing
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import new_job

REQUEST = ClaimRequest(
    worker_id="w",
    slots=3,
    analyses=("survey", "census"),
    lease_seconds=LEASE_SECONDS,
    max_running=5,
    codes={"survey": 7},
)
Preparation = Callable[[Store, SetClock], Awaitable[None]]


class Scene(NamedTuple):
    """The jobs that are submitted together, what was there before, and what the worker asks for."""

    name: str
    jobs: Sequence[dict[str, Any]]
    before: Preparation | None = None
    request: ClaimRequest = REQUEST


def _jobs(*kinds: dict[str, Any]) -> list[NewJob]:
    """Return submissions; `run_at` and `start_by` count from now."""
    return [_timed(new_job(SetClock(), **kind), run_at, start_by) for kind, run_at, start_by in map(_times, kinds)]


def _times(kind: dict[str, Any]) -> tuple[dict[str, Any], float | None, float | None]:
    kind = dict(kind)
    return kind, kind.pop("run_at", None), kind.pop("start_by", None)


def _timed(new: NewJob, run_at: float | None, start_by: float | None) -> NewJob:
    now = SetClock().now()
    times = {"run_at": run_at, "start_by": start_by}
    job = replace(new.job, **{name: None if at is None else after(now, at) for name, at in times.items()})
    return replace(new, job=job)


async def _submitted(store: Store, *jobs: NewJob) -> None:
    answers = await asyncio.gather(*(store.submit(one) for one in jobs))
    assert all(isinstance(one, Accepted) for one in answers), answers


async def _claimed(store: Store, clock: SetClock, **changes: Any) -> Claim:
    [made] = await store.claim(replace(REQUEST, worker_id="earlier", slots=1, analyses=("survey",), **changes))
    clock.pass_(0.001)
    return made


def _waiting(**kind: Any) -> Preparation:
    """A job of another org is in line."""
    earlier = _jobs({"org": "org-z", **kind})

    async def prepare(store: Store, clock: SetClock) -> None:
        await _submitted(store, *earlier)
        clock.pass_(0.001)

    return prepare


def _running(count: int, **kind: Any) -> Preparation:
    """Jobs run already."""
    earlier = _jobs(*[{"org": "org-z", **kind}] * count)

    async def prepare(store: Store, clock: SetClock) -> None:
        await _submitted(store, *earlier)
        for _ in earlier:
            await _claimed(store, clock)

    return prepare


def _given_back(write: Any, seconds: float) -> Preparation:
    """A job had begun, waits for its next attempt, and may have its time by now."""
    earlier = _jobs({"org": "org-z"})

    async def prepare(store: Store, clock: SetClock) -> None:
        await _submitted(store, *earlier)
        assert await store.record((await _claimed(store, clock)).lease, write)
        clock.pass_(seconds)

    return prepare


async def _lost(store: Store, clock: SetClock) -> None:
    """The lease of a job that runs is over, and no sweep has seen it."""
    await _running(3)(store, clock)
    clock.pass_(LEASE_SECONDS + 1)


def _scheduled(seconds: float) -> Preparation:
    """A job waited for its time."""
    earlier = _jobs({"org": "org-z", "run_at": 5.0})

    async def prepare(store: Store, clock: SetClock) -> None:
        await _submitted(store, *earlier)
        clock.pass_(seconds)

    return prepare


async def _paused(store: Store, clock: SetClock) -> None:
    await store.pause(PauseRequest(analysis="survey", because="the source is down", paused_by="me"))


def _completed() -> Preparation:
    """A run has ended, and its result may be reused."""
    earlier = _jobs({**_REUSED, "reuse": None})

    async def prepare(store: Store, clock: SetClock) -> None:
        await store.workers.save_codes([_CODE])
        await _submitted(store, *earlier)
        begun = await _claimed(store, clock, codes={"survey": _CODE.key})
        result_id = f"{begun.lease.job_id[:-1]}{begun.lease.job_id[-1] == '0':d}"
        assert await store.record(begun.lease, Completed(result_id=result_id, payload="1"))
        clock.pass_(1)

    return prepare


_CODE = CodeVersion(
    analysis="survey", version="1", code_hash="0" * 64, package=None, langlauf="0.1", python="3.12", host="a"
)
_REUSED = {"query": "Bern", "reusable": True, "reuse": ReuseRule("1", 86_400.0)}
_THREE: tuple[dict[str, Any], ...] = (
    {},
    {"org": "org-b", "priority_class": "expedite"},
    {"org": "org-b", "analysis": "census"},
)
SCENES = (
    Scene("all of several orgs and classes", _THREE),
    Scene("one alone", ({},)),
    Scene("of lanes that were served before", _THREE, _running(2, org="org-b")),
    Scene("more than the slots", _THREE, request=replace(REQUEST, slots=2)),
    Scene("more than the deployment may run", _THREE, _running(4)),
    Scene("of an analysis that the worker does not know", ({}, {"analysis": "atlas"})),
    Scene("beside one that waits for its time", ({}, {"run_at": 5.0})),
    Scene("beside one that should have started", ({}, {"start_by": -1.0})),
    Scene("beside one whose result is there", ({}, _REUSED), _completed()),
    Scene("where another job waits", _THREE, _waiting()),
    Scene("where a job of an unknown analysis waits", _THREE, _waiting(analysis="atlas")),
    Scene("where a retry is due", _THREE, _given_back(Retry(code="x", message="y", delay_seconds=1.0), 2)),
    Scene("where a retry is not due", _THREE, _given_back(Retry(code="x", message="y", delay_seconds=9.0), 2)),
    Scene("where a job was given back", _THREE, _given_back(Released(), 0.5)),
    Scene("where a worker was lost", _THREE, _lost),
    Scene("where slots are kept for lost jobs", _THREE, _lost, replace(REQUEST, max_running=100)),
    Scene("where a job has its time", _THREE, _scheduled(6.0)),
    Scene("where a job waits for its time", _THREE, _scheduled(1.0)),
    Scene("of a paused analysis", _THREE, _paused),
    Scene("with a limit of an analysis", _THREE, request=replace(REQUEST, limits={"survey": 1})),
    Scene("with a limit of each org", _THREE, request=replace(REQUEST, max_running_org=1)),
)


async def _played(
    stores: list[Store], clock: SetClock, scene: Scene, jobs: Sequence[NewJob], stands: bool
) -> list[Any]:
    """Return everything that shows: claims, jobs and logs. What was there before comes from another process."""
    store, other = stores
    standing = Standing(store, scene.request) if stands else None
    if scene.before is not None:
        await scene.before(other, clock)
    await _submitted(store, *jobs)
    claims = await store.claim(scene.request) if standing is None else await standing.end()
    seen: list[Any] = [sorted(claims, key=lambda one: one.lease.job_id)]
    for new in jobs:
        tenant = store.tenant(new.job.org_id)
        view = await tenant.job(new.job.job_id)
        events = await tenant.events(new.job.job_id, after=0, limit=9)
        assert view is not None
        # The id of a result that is reused is drawn for each job.
        seen.append(repr((view, events)).replace(str(view.job.result_id), "its result"))
    seen.append(await store.depth())
    clock.pass_(1)
    return seen


async def _turns(store: Store, clock: SetClock, later: Sequence[NewJob]) -> list[str]:
    """In which order the orgs have their turns from now on."""
    await _submitted(store, *later)
    request = replace(REQUEST, worker_id="later", slots=1, max_running=100)
    claims = [await store.claim(request) for _ in later]
    return [one.lease.job_id for made in claims for one in made]


@pytest.mark.parametrize("scene", [pytest.param(one, id=one.name) for one in SCENES])
def test_it_makes_no_difference_when_the_claim_came(shared: Harness, scene: Scene) -> None:
    """In what the worker gets, in what clients see, and in whose turn it is afterwards."""
    jobs = _jobs(*({"job_id": new_id(), **kind} for kind in scene.jobs))
    later = _jobs(*({"org": org} for org in ("org-b", "org-a", "org-z", "org-b", "org-a")))
    found: list[list[Any]] = []
    for stands in (False, True):

        async def body(stores: list[Store], clock: SetClock, stands: bool = stands) -> None:
            found.append(await _played(stores, clock, scene, jobs, stands))
            found[-1].append(await _turns(stores[0], clock, later))

        shared.beside(str(stands)).run_many(2, body)
    assert found[1] == found[0]
