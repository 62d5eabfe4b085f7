"""Workers: they report, they leave, and one that vanished can be seen for a while."""

import msgspec
from msgspec.structs import replace

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.health import SILENT_KEPT_SECONDS, WorkerReport, runnable_analyses
from langlauf.domain.outcome import Completed
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.result import HoldRequest, RetentionPolicy
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import DAY, LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, accept, claim_for


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


_CODE = CodeVersion(
    analysis="survey", version="1", code_hash="0" * 64, package=None, langlauf="0.1", python="3.12", host="a"
)


def _policy(jobs: float | None) -> RetentionPolicy:
    return RetentionPolicy(final_results=DAY, partial_results=DAY, events=DAY, jobs=jobs)


def test_code_goes_once_no_worker_runs_it_and_no_job_names_it(harness: Harness) -> None:
    """With retention: of the same code on three hosts, one is run still, one ran a job that is held, one is gone."""

    async def body(store: Store, clock: SetClock) -> None:
        alive, named, gone = codes = [replace(_CODE, host=host) for host in ("alive", "named", "gone")]
        await store.workers.save_codes(codes)
        await accept(store, clock)
        request = ClaimRequest(
            worker_id="w",
            slots=1,
            analyses=("survey",),
            lease_seconds=LEASE_SECONDS,
            max_running=9,
            codes={"survey": named.key},
        )
        [made] = await store.claim(request)
        assert await store.record(made.lease, Completed(result_id="r-1", payload="1"))
        assert await store.hold(HoldRequest(org_id=ORG, result_id="r-1")) is not None

        async def kept() -> list[str]:
            found = [await store.workers.code(code.key) for code in codes]
            return [code.host for code in found if code is not None]

        clock.pass_(29 * DAY)
        await store.retire(_policy(30 * DAY), dry_run=False)
        assert await kept() == ["alive", "named", "gone"]
        clock.pass_(2 * DAY)
        await store.workers.save_codes([alive])
        await store.retire(_policy(None), dry_run=False)
        await store.retire(_policy(30 * DAY), dry_run=True)
        assert await kept() == ["alive", "named", "gone"]
        await store.retire(_policy(30 * DAY), dry_run=False)
        assert await kept() == ["alive", "named"]
        assert await store.hold(HoldRequest(org_id=ORG, result_id="r-1", held=False)) is not None
        for _ in range(2):  # the job goes, then its code: it was seen when the job still named it
            clock.pass_(31 * DAY)
            await store.workers.save_codes([alive])
            await store.retire(_policy(30 * DAY), dry_run=False)
        assert await kept() == ["alive"]
        await store.workers.save_codes([gone])
        assert await kept() == ["alive", "gone"]

    harness.run(body)


def test_code_that_a_worker_ran_today_stays_however_short_retention_is(harness: Harness) -> None:
    """A worker says every hour which code it runs, and may claim a job at any time."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.workers.save_codes([_CODE])
        clock.pass_(23 * 3_600)
        policy = RetentionPolicy(final_results=0, partial_results=0, events=0, jobs=0)
        await store.retire(policy, dry_run=False)
        assert await store.workers.code(_CODE.key) == _CODE
        clock.pass_(2 * 3_600)
        await store.retire(policy, dry_run=False)
        assert await store.workers.code(_CODE.key) is None

    harness.run(body)
