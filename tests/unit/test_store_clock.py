"""The store's clock: whatever happens to the wall clock, leases keep their length and times do not run back."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langlauf.clock import machine_time
from langlauf.domain.attempt import Backoff, Claim, Progress
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import SECOND
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.sqlite import connection
from langlauf.store.sqlite.connection import CLOCK_TOLERANCE, settled
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.snapshot import check_file
from tests.support.server import ROOT, environment
from tests.support.stores import LEASE_SECONDS, JobFactory, SetClock, opened, query
from tests.unit.machine_clock import HOUR, Machine

INSTANTS = st.integers(0, 2**52)


@asynccontextmanager
async def process_on(path: Path | str, machine: Machine) -> AsyncIterator[SqliteStore]:
    """The store as a process opens it that starts now."""
    store = await SqliteStore.open(str(path), hints=Hints(), time=machine.source)
    try:
        yield store
    finally:
        await store.close()


def play(path: Path, scene: Callable[[SqliteStore, JobFactory, Machine], Awaitable[None]]) -> None:
    """Runs a scene on a store with its own clock, and finds it sound afterwards."""
    machine = Machine()

    async def run() -> int:
        async with process_on(path, machine) as store:
            await scene(store, JobFactory(store, machine), machine)
            return store.clock.now()

    now = asyncio.run(run())
    assert list(check_file(str(path), now=now)) == []


async def swept(store: SqliteStore) -> list[str]:
    """What a sweep does, in words."""
    return [one.outcome for one in await store.sweep(grace_seconds=5, backoff=Backoff(0, 0))]


async def complete(store: SqliteStore, claim: Claim) -> None:
    """The attempt ends well."""
    assert await store.record(claim.lease, Completed(result_id=f"r-{claim.lease.job_id}", payload="{}"))


# -- the arithmetic ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shift", "wall", "newest", "busy", "expected"),
    [
        (None, 1_000, 0, False, 900),  # the first process of a boot goes by the wall clock
        (None, 1_000, 5_000, True, 4_900),  # but not behind what the store has seen
        (900, 1_000, 0, False, 900),  # in step
        (900, 1_000 + CLOCK_TOLERANCE, 0, False, 900),  # near enough
        (900, 1_001 + CLOCK_TOLERANCE, 0, False, 901 + CLOCK_TOLERANCE),  # ahead, and nothing runs
        (900, 1_001 + CLOCK_TOLERANCE, 0, True, 900),  # ahead, but a lease lives
        (900, 10, 0, False, 900),  # back: the store is not
        (900, 1_000, 2_000, True, 1_900),  # what the store has seen is never in its future
    ],
)
def test_the_shift_is_settled(shift: int | None, wall: int, newest: int, busy: bool, expected: int) -> None:
    """100 µs after the start of the machine, case by case."""
    assert settled(shift, since_boot=100, wall=wall, newest=newest, busy=busy) == expected


@given(shift=INSTANTS, since_boot=INSTANTS, wall=INSTANTS, newest=INSTANTS, busy=st.booleans())
def test_settling_never_runs_back_and_happens_once(
    shift: int, since_boot: int, wall: int, newest: int, busy: bool
) -> None:
    """The time afterwards is neither before it was nor before the newest known, and settling again changes nothing."""
    seen = {"since_boot": since_boot, "wall": wall, "newest": newest}
    after = settled(shift, **seen, busy=busy)
    assert after >= shift
    assert since_boot + after >= newest
    assert settled(after, **seen, busy=busy) == after
    if not busy:
        assert wall - (since_boot + after) <= CLOCK_TOLERANCE


# -- a store that uses it ----------------------------------------------------------------------------------------------


def test_a_step_forward_loses_no_lease(tmp_path: Path) -> None:
    """The wall clock jumps an hour: the lease lasts as long as before, and a process that opens now agrees."""

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        claim = await maker.running()
        machine.set_wall(HOUR)
        assert await swept(store) == []
        async with process_on(tmp_path / "s.db", machine) as other:
            assert other.clock.now() == store.clock.now()
            assert await swept(other) == []
            [renewal] = await other.renew([claim.lease], lease_seconds=LEASE_SECONDS)
            assert renewal.held
            machine.pass_(LEASE_SECONDS - 0.001)
            assert await swept(other) == await swept(store) == []
            machine.pass_(0.001)
            assert await swept(other) == ["lost"]

    play(tmp_path / "s.db", scene)


def test_a_step_back_delays_nothing(tmp_path: Path) -> None:
    """The wall clock goes back an hour: a lost lease is taken when it is over, and times go on."""

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        claim = await maker.running()
        before = store.clock.now()
        machine.set_wall(-HOUR)
        assert store.clock.now() == before
        machine.pass_(LEASE_SECONDS)
        assert await swept(store) == ["lost"]
        async with process_on(tmp_path / "s.db", machine) as other:
            assert other.clock.now() == store.clock.now()
        [again] = [await maker.claim(await maker._job(claim.lease.job_id))]
        await complete(store, again)

    play(tmp_path / "s.db", scene)


def test_the_clock_follows_the_wall_clock_when_nothing_runs(tmp_path: Path) -> None:
    """Not while a lease lives; then with the next sweep, in every process, and what waits is not harmed."""

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        async with process_on(tmp_path / "s.db", machine) as other:
            claim = await maker.running()
            machine.set_wall(HOUR)
            await swept(store)
            assert machine.now() - store.clock.now() == HOUR * SECOND
            await complete(store, claim)
            waiting = await maker.queued()
            await swept(store)
            assert store.clock.now() == machine.now()
            # The other process did not look yet. Its next write does, before it gives out a lease.
            assert other.clock.now() < store.clock.now()
            made = await JobFactory(other, machine).claim(waiting)
            assert other.clock.now() == store.clock.now()
            assert await swept(store) == []
            await complete(other, made)

    play(tmp_path / "s.db", scene)


def test_a_small_difference_is_left_alone(tmp_path: Path) -> None:
    """Wall clocks are corrected a little all the time; the store's need not follow."""

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        await maker.queued()
        machine.set_wall(CLOCK_TOLERANCE / SECOND)
        await swept(store)
        assert machine.now() - store.clock.now() == CLOCK_TOLERANCE
        machine.set_wall(0.000_001)
        await swept(store)
        assert machine.now() == store.clock.now()

    play(tmp_path / "s.db", scene)


async def _leave_a_lease(path: Path, machine: Machine) -> tuple[Claim, int]:
    """A process works on a job until the machine goes down; returns its claim and its last time."""
    async with process_on(path, machine) as store:
        maker = JobFactory(store, machine)
        await maker.queued()
        claim = await maker.running()
        machine.pass_(5)
        assert await store.record(claim.lease, Progress(percent=20))
        return claim, store.clock.now()


@pytest.mark.parametrize("id_is_known", [True, False])
@pytest.mark.parametrize("wall", [60.0, -60.0, -50 * 365 * 24 * HOUR])
def test_a_restart_ends_leases_and_does_not_turn_time_back(tmp_path: Path, wall: float, id_is_known: bool) -> None:
    """Also where the wall clock forgot the time, and where the system does not tell one start from the next."""
    path, machine = tmp_path / "s.db", Machine()
    claim, newest = asyncio.run(_leave_a_lease(path, machine))
    machine.restart(wall=wall, id_is_known=id_is_known)

    async def afterwards() -> int:
        async with process_on(path, machine) as store:
            assert store.clock.now() == (max(machine.now(), newest) if id_is_known else newest)
            if (
                store.clock.now() == newest
            ):  # nobody knows how long the machine was down: the lease has its whole length
                assert await swept(store) == []
                machine.pass_(LEASE_SECONDS)
            assert await swept(store) == ["lost"]
            maker = JobFactory(store, machine)
            await complete(store, await maker.claim(await maker._job(claim.lease.job_id)))
            await swept(store)
            assert store.clock.now() >= max(machine.now(), newest)
            return store.clock.now()

    now = asyncio.run(afterwards())
    assert list(check_file(str(path), now=now)) == []


def test_imported_times_do_not_set_the_clock(tmp_path: Path) -> None:
    """They come from another system: one that is in the future must not drag the store there."""
    path, machine = tmp_path / "s.db", Machine()

    async def run() -> None:
        async with process_on(path, machine) as store:
            maker = JobFactory(store, machine)
            for made in (maker.queued, maker.running, maker.completed):
                await made()
            other = apsw.Connection(str(path))
            other.execute(
                "UPDATE job_rows SET imported_at = 1, queued_at = 2 * queued_at, updated_at = 2 * updated_at, "
                "finished_at = 2 * finished_at"
            )
            other.close()
            machine.restart(wall=1)
            async with process_on(path, machine) as again:
                assert again.clock.now() == machine.now()

    asyncio.run(run())


def test_a_clock_that_is_given_is_used_as_it_is(tmp_path: Path) -> None:
    """Tests bring their own, and the store keeps nothing of it."""

    async def run() -> None:
        clock = SetClock()
        async with opened(tmp_path / "s.db", clock) as store:
            assert store.clock is clock
            await JobFactory(store, clock).queued()

    asyncio.run(run())
    assert query(tmp_path / "s.db", "SELECT * FROM clocks") == []


def test_a_submission_has_the_time_of_its_write(tmp_path: Path) -> None:
    """Whatever the service's clock said, the job and its first event have the store's time."""

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        before = store.clock.now()
        machine.set_wall(-HOUR)
        job = await maker.queued()
        assert job.queued_at == job.updated_at == before
        view = await store.tenant(job.org_id).job(job.job_id)
        assert view is not None
        assert view.job == job
        [event] = await store.tenant(job.org_id).events(job.job_id, after=0, limit=10)
        assert event.occurred_at == before

    play(tmp_path / "s.db", scene)


def test_a_correction_that_the_store_refuses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds the file: the sweep says so, and the next one corrects the clock."""
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 20)

    async def scene(store: SqliteStore, maker: JobFactory, machine: Machine) -> None:
        await maker.queued()
        machine.set_wall(HOUR)
        other = apsw.Connection(str(tmp_path / "s.db"))
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable):
            await store._correct_clock()
        other.close()
        await swept(store)
        assert store.clock.now() == machine.now()

    play(tmp_path / "s.db", scene)


def test_all_processes_of_this_machine_have_the_same_time() -> None:
    """The time since boot and the name of the boot, as another process sees them, lie between two looks of this one."""
    words = "from langlauf.clock import machine_time as m; print(m().since_boot(), m().wall(), m().boot_id, sep='|')"
    here = machine_time()
    before = here.since_boot()
    said = subprocess.check_output([sys.executable, "-c", words], cwd=ROOT, env=environment(), text=True)
    since_boot, _, boot_id = said.strip().split("|")
    assert before <= int(since_boot) <= here.since_boot()
    assert boot_id == here.boot_id
