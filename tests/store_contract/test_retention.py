"""Retention: what goes when, what stays, and that counting tells the truth."""

import msgspec
import pytest

from langlauf.domain.instant import after
from langlauf.domain.result import RetentionPolicy, RetentionReport
from langlauf.domain.schedule import PauseRequest, Schedule, ScheduleEnd
from langlauf.maintenance.duties import apply_retention, report_json
from langlauf.store.protocol import Store
from tests.support.outbox import leave_pending
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock

WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
KEEP_ALL = RetentionPolicy(final_results=None, partial_results=None, events=None, jobs=None)


def rows(bed: StoreUnderTest, table: str) -> int:
    """How many rows a table has."""
    [[count]] = bed.query(f"SELECT count(*) FROM {table}")
    assert isinstance(count, int)
    return count


def without_flag(report: RetentionReport) -> RetentionReport:
    """A report as if it had been a real run."""
    return msgspec.structs.replace(report, dry_run=False)


def test_young_jobs_keep_everything(bed: StoreUnderTest) -> None:
    """Nothing goes before its time."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(2)
        clock.pass_(3 * DAY - 60)
        report = await apply_retention(store, WEEK)
        assert (report.results.delete_count, report.events.delete_count, report.jobs_deleted) == (0, 0, 0)
        assert (report.results.kept_count, report.events.kept_count) == (3, 6)
        assert (report.results.eligible_terminal, report.events.eligible_terminal) == (0, 0)

    bed.play(scene)


def test_events_go_first_and_the_job_says_so(bed: StoreUnderTest) -> None:
    """After three days the log is gone, the results stay, and the job shows when the log went."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(2)
        clock.pass_(3 * DAY)
        report = await apply_retention(store, WEEK)
        assert (report.events.delete_count, report.events.kept_count, report.events.eligible_terminal) == (6, 0, 1)
        assert report.results.delete_count == 0
        view = await store.tenant("org-a").job(job_id)
        assert view is not None
        assert (view.job.events_expired_at, view.job.result_expired_at) == (clock.now(), None)
        assert await store.tenant("org-a").events(job_id, after=0, limit=10) == []

    bed.play(scene)


def test_results_become_tombstones(bed: StoreUnderTest) -> None:
    """A removed result keeps its id, its org and the time it went, and nothing of what it said."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(1)
        clock.pass_(7 * DAY)
        report = await apply_retention(store, WEEK)
        assert (report.results.delete_count, report.results.kept_count) == (2, 0)
        tenant = store.tenant("org-a")
        view = await tenant.job(job_id)
        assert view is not None
        assert view.job.result_id is not None
        found = await tenant.result(view.job.result_id, latest=False)
        assert found is not None
        assert (found.delivered.payload, found.delivered.snapshot.summary_json) == (None, None)
        assert found.delivered.snapshot.removed_at == clock.now() == view.job.result_expired_at

    bed.play(scene)


def test_a_record_goes_last_with_all_its_parts(bed: StoreUnderTest) -> None:
    """After ninety days nothing of the job is left in any table."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(2, key="k")
        await make.failed(2)
        clock.pass_(90 * DAY)
        assert (await apply_retention(store, WEEK)).jobs_deleted == 2

    bed.play(scene)
    tables = ("jobs", "job_inputs", "job_events", "job_results", "notifications", "job_chunks", "idempotency_keys")
    assert {table: rows(bed, table) for table in tables} == dict.fromkeys(tables, 0)


def test_only_ended_jobs_are_touched(bed: StoreUnderTest) -> None:
    """Queued, running and partial jobs keep everything, however old they are."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.queued()
        await make.running()
        await make.partial(2)
        clock.pass_(1_000 * DAY)
        report = await apply_retention(store, WEEK)
        assert report.terminal_job_count == 0
        assert (report.results.delete_count, report.events.delete_count, report.jobs_deleted) == (0, 0, 0)

    bed.play(scene)
    assert (rows(bed, "jobs"), rows(bed, "job_events"), rows(bed, "job_results")) == (3, 9, 2)


@pytest.mark.parametrize("channel", ["webhook", "email"])
def test_a_pending_delivery_keeps_its_job_whole(bed: StoreUnderTest, channel: str) -> None:
    """Nothing of a job goes while a delivery is pending; once it is sent, everything old goes."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        leave_pending(bed, await make.completed(1), channel)
        clock.pass_(200 * DAY)
        held = await apply_retention(store, WEEK)
        assert (held.results.delete_count, held.events.delete_count, held.jobs_deleted) == (0, 0, 0)
        assert (held.results.eligible_terminal, held.events.eligible_terminal) == (1, 1)
        bed.query("UPDATE notifications SET delivery_status = 'sent'")
        freed = await apply_retention(store, WEEK)
        assert (freed.results.delete_count, freed.events.delete_count, freed.jobs_deleted) == (2, 5, 1)

    bed.play(scene)


def test_a_second_run_deletes_nothing(bed: StoreUnderTest) -> None:
    """What one run took, the next does not find again."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()
        clock.pass_(8 * DAY)
        first = await apply_retention(store, WEEK)
        second = await apply_retention(store, WEEK)
        assert first.results.delete_count > 0
        assert first.events.delete_count > 0
        assert (second.results.delete_count, second.events.delete_count, second.jobs_deleted) == (0, 0, 0)
        assert (second.results.eligible_terminal, second.events.eligible_terminal) == (0, 0)
        assert (second.results.kept_count, second.events.kept_count) == (
            first.results.kept_count,
            first.events.kept_count,
        )

    bed.play(scene)


@pytest.mark.parametrize("days", [4, 8, 91])
def test_a_dry_run_tells_what_the_real_one_does(any_bed: StoreUnderTest, days: int) -> None:
    """A dry run changes nothing, and its figures are those of the real run after it."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()
        clock.pass_(days * DAY)
        dry = await apply_retention(store, WEEK, dry_run=True)
        assert await apply_retention(store, WEEK, dry_run=True) == dry
        assert dry.dry_run
        assert dry.events.delete_count > 0
        assert await apply_retention(store, WEEK) == without_flag(dry)

    any_bed.play(scene)


def test_finals_and_partials_have_their_own_time(bed: StoreUnderTest) -> None:
    """Where partial results go earlier, the job counts as expired only when the final one is gone too."""
    policy = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=None, jobs=None)

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(2)
        clock.pass_(DAY)
        assert (await apply_retention(store, policy)).results.delete_count == 2
        view = await store.tenant("org-a").job(job_id)
        assert view is not None
        assert view.job.result_expired_at is None
        assert [one.result_kind for one in await store.tenant("org-a").results(job_id)] == ["final"]
        clock.pass_(6 * DAY)
        assert (await apply_retention(store, policy)).results.delete_count == 1
        view = await store.tenant("org-a").job(job_id)
        assert view is not None
        assert view.job.result_expired_at == clock.now()

    bed.play(scene)


@pytest.mark.parametrize("kept", ["final_results", "partial_results", "events", "jobs"])
def test_a_kind_kept_for_ever_keeps_the_record(bed: StoreUnderTest, kept: str) -> None:
    """A record would take its parts along, so it stays where one of them has no end."""
    policy = RetentionPolicy(**{"final_results": DAY, "partial_results": DAY, "events": DAY, "jobs": DAY, kept: None})

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(2)
        clock.pass_(1_000 * DAY)
        report = await apply_retention(store, policy)
        assert report.jobs_deleted == 0
        expected = {"final_results": (2, 6), "partial_results": (1, 6), "events": (3, 0), "jobs": (3, 6)}
        assert (report.results.delete_count, report.events.delete_count) == expected[kept]

    bed.play(scene)


def test_partials_of_a_completed_job_go_with_its_final(bed: StoreUnderTest) -> None:
    """A job whose result is gone says so; partials of a failed one are kept as long as they are meant to be."""
    policy = RetentionPolicy(final_results=DAY, partial_results=30 * DAY, events=None, jobs=None)

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        completed = await make.completed(2)
        failed = await make.failed(2)
        clock.pass_(2 * DAY)
        dry = await apply_retention(store, policy, dry_run=True)
        report = await apply_retention(store, policy)
        assert (dry.results.delete_count, report.results.delete_count) == (3, 3)
        found = bed.query("SELECT job_id, result_expired_at IS NOT NULL FROM jobs")
        assert {row[0]: bool(row[1]) for row in found} == {completed: True, failed: False}

    bed.play(scene)


def test_a_policy_without_ends_takes_nothing(bed: StoreUnderTest) -> None:
    """None everywhere keeps everything for ever."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()
        clock.pass_(1_000 * DAY)
        report = await apply_retention(store, KEEP_ALL)
        assert (report.results.delete_count, report.events.delete_count, report.jobs_deleted) == (0, 0, 0)

    bed.play(scene)


def test_a_record_outlives_parts_that_are_kept_longer(bed: StoreUnderTest) -> None:
    """A policy that would drop the record before its results keeps the record until they may go."""
    policy = RetentionPolicy(final_results=30 * DAY, partial_results=30 * DAY, events=3 * DAY, jobs=5 * DAY)

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(29 * DAY)
        assert (await apply_retention(store, policy)).jobs_deleted == 0
        clock.pass_(DAY)
        report = await apply_retention(store, policy)
        assert (report.results.delete_count, report.jobs_deleted) == (2, 1)

    bed.play(scene)


def test_the_report_has_the_promised_fields(bed: StoreUnderTest) -> None:
    """The JSON of a run has exactly the names that scripts rely on."""
    reports: list[RetentionReport] = []

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        await make.failed()
        clock.pass_(8 * DAY)
        reports.append(await apply_retention(store, WEEK, dry_run=True))

    bed.play(scene)
    assert report_json(reports[0]) == {
        "dry_run": True,
        "terminal_job_count": 2,
        "results": {"delete_count": 2, "kept_count": 0, "eligible_terminal": 1, "skipped_missing_timestamp": 0},
        "events": {"delete_count": 9, "kept_count": 0, "eligible_terminal": 2, "skipped_missing_timestamp": 0},
        "jobs": {"delete_count": 0},
    }


def test_an_ended_job_without_its_time_is_counted_and_left(bed: StoreUnderTest) -> None:
    """A job that ended at no known time cannot be aged: it is counted as skipped, and nothing of it goes."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(0)
        bed.without_constraints("UPDATE jobs SET finished_at = NULL")
        clock.pass_(1_000 * DAY)
        report = await apply_retention(store, WEEK)
        assert (report.results.skipped_missing_timestamp, report.events.skipped_missing_timestamp) == (1, 1)
        assert (report.results.delete_count, report.results.kept_count, report.events.kept_count) == (0, 1, 4)

    bed.play(scene)


def test_schedules_and_pauses_are_kept(bed: StoreUnderTest) -> None:
    """They are settings, not records: a schedule stays also when the last of its jobs has gone."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(1)
        plan = Schedule(
            org_id="org-a",
            name="yearly",
            analysis="survey",
            cron="0 6 1 1 *",
            next_run_at=after(clock.now(), 365 * DAY),
        )
        end = ScheduleEnd(
            org_id="org-a",
            name="yearly",
            fired_at=plan.next_run_at or 0,
            next_run_at=after(clock.now(), 730 * DAY),
            outcome="submitted",
            job_id=job_id,
        )
        assert await store.schedules.add(plan)
        assert await store.schedules.advance([end]) == 1
        held = await store.pause(PauseRequest(analysis="census", because="the source is down"))
        kept = await store.tenant("org-a").schedules()
        clock.pass_(100 * DAY)
        assert (await apply_retention(store, WEEK)).jobs_deleted == 1
        assert await store.tenant("org-a").schedules() == kept
        assert await store.pauses() == [held]

    clock = SetClock()
    bed.play(scene, clock)
    assert bed.check(clock) == []
