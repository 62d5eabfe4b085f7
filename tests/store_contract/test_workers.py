"""Workers: they report, they leave, and one that vanished can be seen for a while."""

import msgspec

from langlauf.domain.health import SILENT_KEPT_SECONDS, WorkerReport, runnable_analyses
from langlauf.domain.outcome import Completed
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim_for


def report(clock: SetClock, worker_id: str = "w-1", **changes: object) -> WorkerReport:
    """What a worker tells."""
    usual = WorkerReport(
        worker_id=worker_id,
        host="host-1",
        pid=4711,
        version="1.2.3",
        analyses=("survey", "route"),
        slots=8,
        busy=3,
        every_seconds=5.0,
        started_at=clock.now(),
        stopping=False,
    )
    return msgspec.structs.replace(usual, **changes)


def test_a_report_is_kept_with_the_stores_time(harness: Harness) -> None:
    """Every word of it; the next one takes its place, and a worker that left is gone."""

    async def body(store: Store, clock: SetClock) -> None:
        first = report(clock)
        await store.workers.save_report(first)
        [seen] = await store.workers.statuses()
        assert (seen.report, seen.seen_at, seen.held, seen.held_until) == (first, clock.now(), 0, None)
        clock.pass_(5)
        await store.workers.save_report(msgspec.structs.replace(first, busy=4))
        await store.workers.save_report(report(clock, "w-2"))
        older, newer = await store.workers.statuses()
        assert (older.report.busy, older.seen_at, newer.report.worker_id) == (4, clock.now(), "w-2")
        await store.workers.remove("w-1")
        assert [one.report.worker_id for one in await store.workers.statuses()] == ["w-2"]
        await store.workers.remove("w-1")

    harness.run(body)


def test_a_worker_that_stops_does_not_come_back(harness: Harness) -> None:
    """A report that was under way when it began to stop changes nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.workers.save_report(report(clock, stopping=True, busy=1))
        await store.workers.save_report(report(clock, busy=5))
        [seen] = await store.workers.statuses()
        assert (seen.report.stopping, seen.report.busy) == (True, 1)
        assert not seen.works(clock.now())

    harness.run(body)


def test_a_silent_worker_is_seen_for_a_while(harness: Harness) -> None:
    """Silent after two reports that are missing; forgotten when others report an hour later."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.workers.save_report(report(clock))
        clock.pass_(11)
        [seen] = await store.workers.statuses()
        assert not seen.silent(clock.now())
        assert runnable_analyses([seen], clock.now()) == {"survey", "route"}
        clock.pass_(0.1)
        assert seen.silent(clock.now())
        assert runnable_analyses([seen], clock.now()) == frozenset()
        clock.pass_(SILENT_KEPT_SECONDS - 11.1)
        await store.workers.save_report(report(clock, "w-2"))
        assert len(await store.workers.statuses()) == 2
        clock.pass_(0.1)
        await store.workers.save_report(report(clock, "w-2"))
        assert [one.report.worker_id for one in await store.workers.statuses()] == ["w-2"]

    harness.run(body)


def test_what_a_worker_holds_is_told(harness: Harness) -> None:
    """How many jobs, and until when the last of them is its own."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.workers.save_report(report(clock))
        for _ in range(3):
            await accept(store, clock)
        first = await claim_for(store, "w-1", 2)
        clock.pass_(1)
        [later] = await claim_for(store, "w-1", 1)
        [seen] = await store.workers.statuses()
        assert (seen.held, seen.held_until) == (3, later.expires_at)
        assert later.expires_at == clock.now() + LEASE_SECONDS * 1_000_000
        assert await store.record(later.lease, Completed(result_id="r", payload="1"))
        [seen] = await store.workers.statuses()
        assert (seen.held, seen.held_until) == (2, first[0].expires_at)

    harness.run(body)


def test_all_hosts_see_the_same_workers(shared: Harness) -> None:
    """Whoever asks, wherever they reported."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        for number, store in enumerate(stores):
            await store.workers.save_report(report(clock, f"w-{number}", host=f"host-{number}"))
        found = [[one.report.host for one in await store.workers.statuses()] for store in stores]
        assert found == [["host-0", "host-1"]] * 2

    shared.run_many(2, body)
