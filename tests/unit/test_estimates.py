"""Estimates on a real store: they come true, follow the queue, and cost a poll nothing that grows."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import apsw
import msgspec
import pytest

from langlauf.analysis.job import Job
from langlauf.analysis.registry import Registry
from langlauf.domain.attempt import Claim, Progress
from langlauf.domain.job import JobRecord, QueueFull
from langlauf.domain.outcome import Completed, Failed, Released, Retry
from langlauf.domain.read_models import JobView
from langlauf.service import single_flight
from langlauf.service.start_times import Estimates, Pauses
from langlauf.settings import load_settings
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock, opened
from tests.support.submissions import accept, cancel_request, claim, read_job

#: What a run of each analysis takes here, to the second.
SECONDS = {"survey": 10.0, "census": 40.0}


class World(msgspec.Struct, frozen=True):
    """How many jobs run at once."""

    slots: int
    per_org: int | None = None
    limits: dict[str, int] = {}

    def estimates(self, store: SqliteStore, fresh_seconds: float = 0) -> Estimates:
        """Estimates under these limits, by default without a memory."""
        registry = Registry()
        for name in SECONDS:
            registry.register(_analysis(), name=name, max_running=self.limits.get(name))
        per_org = {} if self.per_org is None else {"LANGLAUF_MAX_RUNNING_PER_ORG": str(self.per_org)}
        settings = load_settings({"LANGLAUF_MAX_RUNNING": str(self.slots), **per_org})
        pauses = Pauses(store, registry, store.clock)
        return Estimates(store, registry, settings, pauses, fresh_seconds=fresh_seconds)

    async def claim(self, store: SqliteStore) -> list[Claim]:
        """A worker with all slots asks."""
        return await claim(
            store,
            self.slots,
            analyses=tuple(SECONDS),
            max_running=self.slots,
            limits=self.limits,
            max_running_org=self.per_org,
        )


def _analysis() -> Callable[..., Awaitable[None]]:
    async def run(job: Job) -> None:
        """Never called here."""

    return run


async def _learn(store: SqliteStore, clock: SetClock) -> None:
    """One run of each analysis, so that their paces are known."""
    for name, seconds in SECONDS.items():
        await accept(store, clock, org="org-0", analysis=name)
        [made] = await claim(store, analyses=(name,))
        await store.renew([made.lease], lease_seconds=2 * seconds)
        clock.pass_(seconds)
        await _complete(store, made)


async def _complete(store: SqliteStore, made: Claim) -> None:
    assert await store.record(made.lease, Completed(result_id=made.lease.job_id, payload="{}"))


def play(scene: Callable[[SqliteStore, SetClock], Awaitable[None]]) -> None:
    """Runs a scene on a store that knows the paces."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            await _learn(store, clock)
            await scene(store, clock)

    asyncio.run(main())


class Simulation:
    """Runs all jobs to their ends, second by second, and notes what was estimated for each on the way."""

    def __init__(self, store: SqliteStore, clock: SetClock, world: World) -> None:
        self.store = store
        self.clock = clock
        self.world = world
        self.estimates = world.estimates(store)
        self.running: list[tuple[int, Claim]] = []
        self.told: dict[str, list[tuple[int, float]]] = {}
        self.ended: dict[str, int] = {}

    async def run(self, jobs: list[JobRecord]) -> None:
        self.told = {job.job_id: [] for job in jobs}
        while len(self.ended) < len(jobs):
            for made in await self.world.claim(self.store):
                end = self.clock.now() + round(SECONDS[made.analysis] * 1_000_000)
                self.running.append((end, made))
            for job in jobs[::7] + jobs[-1:]:
                await self._ask(job)
            self.clock.pass_(1)
            await self._end_what_is_over()

    async def _ask(self, job: JobRecord) -> None:
        if job.job_id not in self.ended:
            view = await read_job(self.store, job.job_id, job.org_id)
            told = await self.estimates.remaining(view, self.clock.now())
            assert told is not None
            self.told[job.job_id].append((self.clock.now(), told))

    async def _end_what_is_over(self) -> None:
        for end, made in list(self.running):
            if end <= self.clock.now():
                self.running.remove((end, made))
                await _complete(self.store, made)
                self.ended[made.lease.job_id] = self.clock.now()
            else:
                await self.store.renew([made.lease], lease_seconds=15)

    def errors(self) -> list[float]:
        """How far each estimate was from the truth, in seconds."""
        return [
            told - (self.ended[job_id] - at) / 1_000_000
            for job_id, all_told in self.told.items()
            for at, told in all_told
        ]


SCENES: dict[str, tuple[World, list[tuple[str, str, int]]]] = {
    "one org, one slot": (World(1), [("org-a", "survey", 12)]),
    "one org": (World(4), [("org-a", "survey", 40)]),
    "one large and two small orgs": (
        World(3),
        [("org-a", "survey", 40), ("org-b", "survey", 6), ("org-c", "survey", 2)],
    ),
    "long and short jobs": (World(4), [("org-a", "census", 12), ("org-b", "survey", 20)]),
    "an analysis with a limit": (World(6, limits={"census": 1}), [("org-a", "census", 4), ("org-b", "survey", 40)]),
    "orgs with a limit": (World(6, per_org=2), [("org-a", "survey", 20), ("org-b", "survey", 6)]),
}


@pytest.mark.parametrize("name", SCENES)
def test_estimates_come_true(name: str) -> None:
    """From submission to end, every estimate is within one run of the truth, and near it on the average."""
    world, queues = SCENES[name]

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        jobs = [
            await accept(store, clock, org=org, analysis=analysis)
            for org, analysis, count in queues
            for _ in range(count)
        ]
        simulation = Simulation(store, clock, world)
        began = clock.now()
        await simulation.run(jobs)
        errors = simulation.errors()
        longest = (clock.now() - began) / 1_000_000
        mean = sum(map(abs, errors)) / len(errors)
        worst = max(map(abs, errors))
        print(f"{name}: {longest:.0f} s in all, off by {mean:.1f} s on the average, {worst:.1f} at most")
        assert worst <= max(SECONDS[analysis] for _, analysis, _ in queues)
        assert mean <= 0.05 * longest

    play(scene)


def test_a_wait_goes_down_as_the_queue_moves() -> None:
    """Every poll tells less than the one before it, also while nothing but time passes."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        jobs = [await accept(store, clock) for _ in range(6)]
        simulation = Simulation(store, clock, World(1))
        await simulation.run(jobs)
        told = [seconds for _, seconds in simulation.told[jobs[-1].job_id]]
        assert told[0] == 60.0
        assert all(later < earlier for earlier, later in itertools.pairwise(told))

    play(scene)


def test_canceled_jobs_before_it_shorten_the_wait() -> None:
    """Nobody waits for what will not run."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        jobs = [await accept(store, clock) for _ in range(21)]
        estimates = World(1).estimates(store)
        last = JobView(jobs[-1], None)
        assert await estimates.remaining(last, clock.now()) == 210.0
        for job in jobs[5:15]:
            await store.cancel(cancel_request(job.job_id))
        assert await estimates.remaining(last, clock.now()) == pytest.approx(110.0, abs=10)

    play(scene)


def test_backoff_counts() -> None:
    """The time until the next attempt, then a run; at the latest when a slot is free."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        await accept(store, clock)
        estimates = World(1).estimates(store)
        [made] = await claim(store)
        assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=25))
        parked = await read_job(store, made.lease.job_id)
        assert await estimates.remaining(parked, clock.now()) == 35.0
        clock.pass_(20)
        assert await estimates.remaining(parked, clock.now()) == 15.0
        await accept(store, clock, org="org-b", analysis="census")
        await claim(store, analyses=("census",))
        assert await estimates.remaining(parked, clock.now()) == pytest.approx(50.0, abs=0.1)

    play(scene)


def test_a_released_job_goes_first() -> None:
    """It had started: the queue is not before it."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        for _ in range(9):
            await accept(store, clock)
        [made] = await claim(store)
        assert await store.record(made.lease, Released())
        released = await read_job(store, made.lease.job_id)
        assert await World(1).estimates(store).remaining(released, clock.now()) == 10.0

    play(scene)


def test_nothing_is_estimated_before_anything_is_known() -> None:
    """A first job of an analysis waits and runs without an estimate; a failure teaches nothing."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            estimates = World(1).estimates(store)
            job = await accept(store, clock)
            assert await estimates.remaining(JobView(job, None), clock.now()) is None
            [made] = await claim(store)
            clock.pass_(5)
            view = await read_job(store, job.job_id)
            assert await estimates.remaining(view, clock.now()) is None
            assert await store.record(made.lease, Progress(percent=25))
            view = await read_job(store, job.job_id)
            assert await estimates.remaining(view, clock.now()) == 15.0
            assert await store.record(made.lease, Failed(code="internal", message="broken", retryable=False))
            other = await accept(store, clock)
            assert await estimates.remaining(JobView(other, None), clock.now()) is None
            full = QueueFull("org", 1)
            assert await estimates.retry_after(full, "org-a", "survey", clock.now()) == 10

    asyncio.run(main())


@pytest.mark.parametrize(("scope", "seconds"), [("org", 27), ("analysis", 7), ("all", 7)])
def test_a_refused_client_is_told_when_there_is_room(scope: str, seconds: int) -> None:
    """When the next job of the org starts, of the analysis, or any: others have their turns before the org's next."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        await accept(store, clock)
        await World(1).claim(store)
        for org in ("org-a", "org-b", "org-c", "org-d", "org-e"):
            await accept(store, clock, org=org)
        clock.pass_(3)
        full = msgspec.convert({"scope": scope, "waiting": 5}, QueueFull)
        told = await World(1).estimates(store).retry_after(full, "org-a", "survey", clock.now())
        assert told == pytest.approx(seconds, abs=20 if scope == "org" else 0)

    play(scene)


def test_concurrent_polls_share_a_query() -> None:
    """A thousand status requests at once read paces, queues and places once."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        jobs = [await accept(store, clock) for _ in range(100)]
        statements: list[str] = []
        store._reader.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))
        estimates = World(1).estimates(store, fresh_seconds=60)
        told = await asyncio.gather(*(estimates.remaining(JobView(job, None), clock.now()) for job in jobs * 10))
        assert told == [10.0 * place for place in range(1, 101)] * 10
        assert 1 <= len(statements) < 20

    play(scene)


def test_no_poll_waits_for_estimates_that_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has just become too old is read again beside the polls, and shown once more; after a pause a poll waits."""
    now = 0.0
    monkeypatch.setattr(single_flight, "time", SimpleNamespace(monotonic=lambda: now))

    async def body() -> None:
        nonlocal now
        reads: list[asyncio.Future[str]] = []

        def look() -> asyncio.Future[str]:
            reads.append(asyncio.get_running_loop().create_future())
            return reads[-1]

        cached = single_flight.CachedRead(look, fresh_seconds=1.0)
        first = asyncio.create_task(cached.get())
        await _turns()
        reads[0].set_result("first")
        assert await first == "first"
        now = 1.5
        assert await cached.get() == "first"
        await _turns()
        assert len(reads) == 2
        assert await cached.get() == "first"
        reads[1].set_result("second")
        assert await asyncio.wait_for(_settled(cached), 60) == "second"
        now = 4.0
        late = asyncio.create_task(cached.get())
        await _turns()
        assert not late.done()
        reads[2].set_result("third")
        assert await late == "third"

    asyncio.run(body())


async def _turns() -> None:
    """Let tasks run that wait for nothing."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _settled(cached: "single_flight.CachedRead[str]") -> str:
    """What is cached once the read under way has ended."""
    assert cached._looking is not None
    await cached._looking
    return await cached.get()
