"""Following: hints come from the commit, one look finds the rest, and reads at the same moment are shared."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from langlauf.analysis.registry import Registry
from langlauf.auth.caller import internal_caller
from langlauf.auth.rates import LocalMemory
from langlauf.bootstrap import make_services
from langlauf.domain.attempt import Progress
from langlauf.domain.errors import NoStreamSlot, StoreUnavailable
from langlauf.domain.job import Phase
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.hints import Hints
from langlauf.service.request_limits import StreamSlots
from langlauf.service.services import Services
from langlauf.service.single_flight import SingleFlight
from langlauf.settings import load_settings
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import started

CALLER = internal_caller("org-a")


@asynccontextmanager
async def _services(path: Path, clock: SetClock) -> AsyncIterator[tuple[SqliteStore, Services, Hints]]:
    hints = Hints()
    store = await SqliteStore.open(str(path / "store.db"), clock=clock, hints=hints)
    try:
        yield store, make_services(store, Registry(), load_settings({}), hints), hints
    finally:
        await store.close()


def _never(_: JobView) -> bool:
    return False


async def _settle() -> None:
    """Lets tasks run until they wait for something that does not come by itself."""
    for _ in range(20):
        await asyncio.sleep(0.005)


def test_a_caller_that_goes_away_takes_no_hint_along(tmp_path: Path) -> None:
    """What is committed wakes those who follow, also where nobody waits for the commit any more."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, _, hints):
            made = await started(store, clock, org="org-a")
            changed = asyncio.Event()
            hints.follow(made.lease.job_id, changed)
            writing = asyncio.ensure_future(store.record(made.lease, Progress(percent=50)))
            await asyncio.sleep(0)
            writing.cancel()
            async with asyncio.timeout(60):
                await changed.wait()

    asyncio.run(body())


def test_a_look_wakes_for_what_another_process_wrote(tmp_path: Path) -> None:
    """Without any hint; those whose job did not change sleep on."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, services, _):
            other = await SqliteStore.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
            first, second = await started(store, clock, org="org-a"), await started(store, clock, org="org-a")
            follow = services.followers.until
            tasks = [
                asyncio.create_task(follow(CALLER, made.lease.job_id, 60, lambda view: view.job.progress_percent == 50))
                for made in (first, second)
            ]
            await _settle()
            assert await other.record(first.lease, Progress(percent=50))
            await services.followers.look()
            async with asyncio.timeout(60):
                view = await tasks[0]
            assert view is not None
            assert view.job.progress_percent == 50
            await _settle()
            assert not tasks[1].done()
            tasks[1].cancel()
            await other.close()

    asyncio.run(body())


def test_a_look_wakes_for_what_time_alone_changes(tmp_path: Path) -> None:
    """A worker that falls silent writes nothing: the phase of its job changes all the same."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, services, _):
            made = await started(store, clock, org="org-a")
            reads = services.reads
            poll = asyncio.create_task(
                services.followers.until(CALLER, made.lease.job_id, 60, lambda view: reads.phase(view) is Phase.SILENT)
            )
            await _settle()
            clock.pass_(LEASE_SECONDS / 2)
            await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
            clock.pass_(LEASE_SECONDS / 2)
            await services.followers.look()
            await _settle()
            assert not poll.done(), "its lease was renewed, which the look must see"
            clock.pass_(LEASE_SECONDS / 2)
            await services.followers.look()
            async with asyncio.timeout(60):
                assert await poll is not None

    asyncio.run(body())


def test_a_look_reads_once_for_all_and_nothing_for_nobody(tmp_path: Path) -> None:
    """Each job stands in it once, however many follow it."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, services, _):
            made = [await started(store, clock, org="org-a") for _ in range(3)]
            asked: list[list[tuple[str, str]]] = []
            pulses = store.job_fingerprints

            async def counting(jobs: Any) -> dict[tuple[str, str], JobFingerprint]:
                asked.append(list(jobs))
                return await pulses(jobs)

            store.job_fingerprints = counting  # type: ignore[method-assign]
            await services.followers.look()
            assert asked == []
            tasks = [
                asyncio.create_task(services.followers.until(CALLER, made[number % 3].lease.job_id, 60, _never))
                for number in range(30)
            ]
            await _settle()
            await services.followers.look()
            assert [sorted(jobs) for jobs in asked] == [sorted(("org-a", one.lease.job_id) for one in made)]
            for task in tasks:
                task.cancel()

    asyncio.run(body())


def test_many_followed_jobs_are_looked_at_in_parts(tmp_path: Path) -> None:
    """So that other readers have their turn; nothing is left out, and nothing is made up."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, _, __):
            made = [await started(store, clock, org=org) for org in ("org-a", "org-b")]
            known = [(one.lease.org_id, one.lease.job_id) for one in made]
            crossed = [("org-b", known[0][1])]
            unknown = [("org-a", f"none-{number}") for number in range(2_500)]
            pulses = await store.job_fingerprints([*unknown, *known, *crossed])
            assert sorted(pulses) == sorted(known)
            assert all(pulse.event_seq >= 2 and not pulse.events_expired for pulse in pulses.values())

    asyncio.run(body())


def test_a_store_that_is_away_is_told_once(tmp_path: Path) -> None:
    """Not once a second; and again the next time that it goes away."""

    async def body() -> None:
        clock = SetClock()
        async with _services(tmp_path, clock) as (store, services, _):
            made = await started(store, clock, org="org-a")
            poll = asyncio.create_task(services.followers.until(CALLER, made.lease.job_id, 60, _never))
            await _settle()
            pulses = store.job_fingerprints

            async def away(jobs: Any) -> dict[tuple[str, str], JobFingerprint]:
                raise StoreUnavailable("away")

            before = EVENT_COUNTS[LogEvent.STORE_UNAVAILABLE]
            for _ in range(2):
                store.job_fingerprints = away  # type: ignore[method-assign]
                for _ in range(3):
                    await services.followers.look()
                store.job_fingerprints = pulses  # type: ignore[method-assign]
                await services.followers.look()
            assert EVENT_COUNTS[LogEvent.STORE_UNAVAILABLE] == before + 2
            poll.cancel()

    asyncio.run(body())


def test_places_come_back_whatever_happens() -> None:
    """Also where the one who had it failed; a refusal takes none."""
    memory = LocalMemory()
    places = StreamSlots(most_of_org=2, most=3, memory=memory)

    def use() -> None:
        with places.take(("a",), "stream"), places.take(("a",), "poll"):
            with pytest.raises(NoStreamSlot) as refused, places.take(("a",), "stream"):
                pass
            assert refused.value.scope == "org"
            with places.take(("b",), "stream"), pytest.raises(NoStreamSlot) as refused, places.take(("c",), "stream"):
                pass
            assert refused.value.scope == "all"
            assert (places.taken("stream"), places.taken("poll")) == (1, 1)
            raise ZeroDivisionError

    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            use()
    assert (places.taken("stream"), places.taken("poll")) == (0, 0)
    assert not memory._counts


class Slow:
    """A read that is answered when the test says so."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[int]] = []

    async def __call__(self) -> int:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


def _shared(use: Callable[[SingleFlight[int], Slow], Any]) -> None:
    asyncio.run(use(SingleFlight(bool), Slow()))


def test_who_asks_for_the_same_at_the_same_moment_shares_a_read() -> None:
    """And only then: another key, or a later moment, reads for itself."""

    async def use(shared: SingleFlight[int], read: Slow) -> None:
        tasks = [asyncio.create_task(shared.get("key", read)) for _ in range(10)]
        other = asyncio.create_task(shared.get("other", read))
        await asyncio.sleep(0.01)
        assert len(read.answers) == 2
        tasks[0].cancel()
        await asyncio.sleep(0)
        read.answers[0].set_result(7)
        read.answers[1].set_result(8)
        assert await asyncio.gather(*tasks[1:], other) == [7] * 9 + [8]
        later = asyncio.create_task(shared.get("key", read))
        await asyncio.sleep(0.01)
        assert len(read.answers) == 3
        read.answers[2].set_result(9)
        assert await later == 9

    _shared(use)


def test_who_joined_a_read_that_found_nothing_reads_again() -> None:
    """It began before they asked: what they were woken for may have come after it."""

    async def use(shared: SingleFlight[int], read: Slow) -> None:
        first = asyncio.create_task(shared.get("key", read))
        await asyncio.sleep(0.01)
        joined = [asyncio.create_task(shared.get("key", read)) for _ in range(5)]
        await asyncio.sleep(0.01)
        read.answers[0].set_result(0)
        assert await first == 0
        await asyncio.sleep(0.01)
        assert len(read.answers) == 2, "together"
        read.answers[1].set_result(5)
        assert await asyncio.gather(*joined) == [5] * 5

    _shared(use)


def test_a_shared_read_that_fails_fails_for_all() -> None:
    """And the next one begins anew."""

    async def use(shared: SingleFlight[int], read: Slow) -> None:
        tasks = [asyncio.create_task(shared.get("key", read)) for _ in range(3)]
        await asyncio.sleep(0.01)
        read.answers[0].set_exception(StoreUnavailable("away"))
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
        again = asyncio.create_task(shared.get("key", read))
        await asyncio.sleep(0.01)
        read.answers[1].set_result(1)
        assert await again == 1

    _shared(use)
