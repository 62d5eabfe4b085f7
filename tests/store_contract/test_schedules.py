"""Schedules: kept per org, changed only as they were seen, fired once by any process, and never lost."""

import asyncio
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from msgspec.structs import replace

from langlauf import Job, Langlauf
from langlauf.api.schedules import shown_runs
from langlauf.bootstrap import make_services
from langlauf.domain.instant import SECOND, after
from langlauf.domain.schedule import PlannedRun, Schedule, ScheduleEnd
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.service.schedules import ScheduleFirer
from langlauf.service.services import Services
from langlauf.settings import load_settings
from langlauf.store import admin
from langlauf.store.protocol import Store
from tests.store_contract import killed_firer
from tests.store_contract.conftest import Harness
from tests.support.processes import eventually
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import JobFactory, SetClock
from tests.support.submissions import cancel_request, claim

_KNOWN = ("survey",)


def _app() -> Langlauf:
    app = Langlauf(settings=load_settings({"LANGLAUF_STORE": "memory://"}))

    @app.analysis
    async def survey(job: Job, region: str = "BE") -> dict[str, Any]:
        return {"region": region}

    return app


def _schedule(clock: SetClock, name: str = "hourly", org: str = "org-a", **fields: Any) -> Schedule:
    known = {"every_seconds": 3_600.0, "next_run_at": after(clock.now(), 3_600), **fields}
    return Schedule(org_id=org, name=name, analysis="survey", created_at=clock.now(), updated_at=clock.now(), **known)


def _services(store: Store) -> tuple[Services, ScheduleFirer]:
    app = _app()
    services = make_services(store, app.registry, app.settings, Hints())
    return services, ScheduleFirer(store, app.registry, services.submissions)


async def _runs(store: Store, name: str = "hourly", org: str = "org-a") -> list[int | None]:
    return [view.job.planned_at for view in await store.tenant(org).schedule_runs(name, limit=100)]


def test_schedules_belong_to_their_org(harness: Harness) -> None:
    """The same name in two orgs are two; a second one of the same org is refused."""

    async def body(store: Store, clock: SetClock) -> None:
        mine, other = _schedule(clock), _schedule(clock, org="org-b", paused=True, next_run_at=None)
        assert await store.schedules.add(mine)
        assert await store.schedules.add(other)
        assert not await store.schedules.add(mine)
        assert await store.tenant("org-a").schedules() == [mine]
        assert await store.tenant("org-b").schedules("hourly") == [other]
        assert await store.tenant("org-c").schedules() == []
        assert not await store.schedules.remove("org-c", "hourly")
        assert await store.schedules.remove("org-a", "hourly")
        assert await store.tenant("org-a").schedules("hourly") == []
        assert await store.tenant("org-b").schedules() == [other]

    harness.run(body)


def test_runs_are_recorded_beside_many_other_changes(harness: Harness) -> None:
    """A batch takes the changes of several orgs in turns, also one that is for schedules of several."""

    async def body(store: Store, clock: SetClock) -> None:
        both = [_schedule(clock, org=org) for org in ("org-a", "org-b")]
        for one in both:
            assert await store.schedules.add(one)
        planned = both[0].next_run_at or 0
        ends = [
            ScheduleEnd(org_id=one.org_id, name=one.name, fired_at=planned, next_run_at=planned + 1, outcome="run")
            for one in both
        ]
        others = [store.schedules.remove(f"org-{number % 5}", "unknown") for number in range(80)]
        advanced, *removed = await asyncio.gather(store.schedules.advance(ends), *others)
        assert advanced == 2
        assert not any(removed)

    harness.run(body)


def test_a_change_needs_the_schedule_as_it_was_seen(harness: Harness) -> None:
    """Of two changes at the same time one is told to look again."""

    async def body(store: Store, clock: SetClock) -> None:
        one = _schedule(clock)
        await store.schedules.add(one)
        changed = _schedule(clock, zone="Europe/Zurich", missed="all", overlap="queue", notify='{"email":"a@b.ch"}')
        clock.pass_(1)
        later = {"updated_at": clock.now()}
        made = Schedule(**{name: getattr(changed, name) for name in changed.__struct_fields__} | later)
        assert await store.schedules.change(made, seen_at=one.updated_at)
        assert not await store.schedules.change(made, seen_at=one.updated_at)
        assert await store.tenant("org-a").schedules() == [made]

    harness.run(body)


def test_an_org_has_only_so_many(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have as many."""
    monkeypatch.setattr(admin, "MOST_SCHEDULES", 3)

    async def body(store: Store, clock: SetClock) -> None:
        names = [f"number-{number}" for number in range(5)]
        added = await asyncio.gather(*(store.schedules.add(_schedule(clock, name)) for name in names))
        assert sum(added) == 3
        assert await store.schedules.add(_schedule(clock, org="org-b"))

    harness.run(body)


def test_a_due_schedule_is_claimed_for_a_moment_and_advanced_once(harness: Harness) -> None:
    """Until the claim expires no other process gets it; only the planned time that was fired advances it."""

    async def body(store: Store, clock: SetClock) -> None:
        one = _schedule(clock)
        await store.schedules.add(one)
        await store.schedules.add(_schedule(clock, "unknown", every_seconds=60.0))
        assert await store.schedules.next_planned(_KNOWN) == one.next_run_at
        assert await store.schedules.claim_due(_KNOWN, seconds=5, most=9) == []
        clock.time = one.next_run_at or 0
        assert await store.schedules.claim_due(("other",), seconds=5, most=9) == []
        claimed = await store.schedules.claim_due(_KNOWN, seconds=5, most=9)
        assert sorted(found.name for found in claimed) == ["hourly", "unknown"]
        assert await store.schedules.claim_due(_KNOWN, seconds=5, most=9) == []
        clock.pass_(5)
        assert len(await store.schedules.claim_due(_KNOWN, seconds=5, most=1)) == 1
        end = ScheduleEnd(
            org_id="org-a",
            name="hourly",
            fired_at=one.next_run_at or 0,
            next_run_at=after(one.next_run_at or 0, 3_600),
            last_run_at=one.next_run_at,
            outcome="submitted",
            job_id="job",
        )
        assert await store.schedules.advance([end]) == 1
        assert await store.schedules.advance([end]) == 0
        [advanced] = await store.tenant("org-a").schedules("hourly")
        assert (advanced.next_run_at, advanced.last_run_at) == (end.next_run_at, end.fired_at)
        assert (advanced.last_outcome, advanced.last_job_id, advanced.claimed_until) == ("submitted", "job", None)

    harness.run(body)


def test_two_processes_fire_and_one_job_comes_of_it(shared: Harness) -> None:
    """Also where both have claimed it, because the first was slow."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        firers = [_services(store)[1] for store in stores]
        one = _schedule(clock)
        await stores[0].schedules.add(one)
        clock.time = one.next_run_at or 0
        seen = await stores[0].tenant("org-a").schedules()
        await asyncio.gather(*(firer.fire_these(seen, clock.now()) for firer in firers))
        clock.pass_(0.5)
        await asyncio.gather(*(firer.fire() for firer in firers))
        assert await _runs(stores[0]) == [one.next_run_at]
        [advanced] = await stores[1].tenant("org-a").schedules()
        assert advanced.next_run_at == after(one.next_run_at or 0, 3_600)

    shared.run_many(2, body)


def test_the_next_time_is_that_of_a_schedule_which_this_process_can_fire(harness: Harness) -> None:
    """One that another process fires counts from the end of its claim, one of an unknown analysis not at all."""

    async def body(store: Store, clock: SetClock) -> None:
        start = clock.now()
        assert await store.schedules.next_planned(_KNOWN) is None
        await store.schedules.add(replace(_schedule(clock, "gone", next_run_at=start), analysis="gone"))
        assert await store.schedules.next_planned(_KNOWN) is None
        await store.schedules.add(_schedule(clock, "first", next_run_at=start))
        await store.schedules.add(_schedule(clock, "second", next_run_at=after(start, 3)))
        await store.schedules.add(_schedule(clock, "paused", paused=True, next_run_at=None))
        assert await store.schedules.next_planned(("other", *_KNOWN)) == start
        [first] = await store.schedules.claim_due(_KNOWN, seconds=2, most=9)
        assert first.name == "first"
        assert await store.schedules.next_planned(_KNOWN) == after(start, 2)
        clock.pass_(2)
        await store.schedules.claim_due(_KNOWN, seconds=2, most=9)
        assert await store.schedules.next_planned(_KNOWN) == after(start, 3)
        assert await store.schedules.next_planned(("gone", *_KNOWN)) == start

    harness.run(body)


@pytest.mark.parametrize(("verb", "before"), [("unfinished", 0), ("advance", 1)])
def test_a_process_that_is_killed_while_it_fires_loses_no_run(bed: StoreUnderTest, verb: str, before: int) -> None:
    """Killed before the job is submitted or after: another process makes one job of the run, and plans the next."""

    async def plan(store: Store, make: JobFactory, clock: SetClock) -> Schedule:
        now = clock.now()
        one = replace(_schedule(clock, next_run_at=now), created_at=after(now, -3_600))
        assert await store.schedules.add(one)
        return one

    async def look(store: Store, make: JobFactory, clock: SetClock) -> tuple[list[int | None], Schedule]:
        return await _runs(store), (await store.tenant("org-a").schedules())[0]

    clock = SetClock(round(time.time() * SECOND))  # the processes have the clock of the machine
    one = bed.play(plan, clock)
    command = [sys.executable, "-m", "tests.store_contract.killed_firer", bed.place, verb]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    runs, left = bed.play(look, clock)
    assert (len(runs), left.next_run_at) == (before, one.next_run_at)
    eventually(lambda: asyncio.run(killed_firer.fire(bed.place, None)))  # once the claim of the dead one is over
    runs, done = bed.play(look, clock)
    assert runs == [one.next_run_at]
    assert (done.next_run_at, done.last_outcome) == (after(one.next_run_at or 0, 3_600), "submitted")


def test_a_run_that_was_submitted_before_a_change_is_not_submitted_again(harness: Harness) -> None:
    """A process was killed after it had submitted the run, and the input was changed: the next run has the new one."""

    async def body(store: Store, clock: SetClock) -> None:
        _, firer = _services(store)
        one = _schedule(clock)
        await store.schedules.add(one)
        clock.time = one.next_run_at or 0
        await firer.fire_these([one], clock.now())
        [advanced] = await store.tenant("org-a").schedules()
        stale = replace(advanced, input='{"region":"ZH"}', next_run_at=one.next_run_at)
        assert await store.schedules.change(stale, seen_at=advanced.updated_at)
        await firer.fire()
        [left] = await store.tenant("org-a").schedules()
        assert (left.next_run_at, left.last_outcome) == (after(one.next_run_at or 0, 3_600), "submitted")
        assert await _runs(store) == [one.next_run_at]
        clock.time = left.next_run_at or 0
        [run] = await store.tenant("org-a").schedule_runs("hourly", limit=1)
        await store.cancel(cancel_request(run.job.job_id))
        await firer.fire()
        [newest, _] = await store.tenant("org-a").schedule_runs("hourly", limit=2)
        assert newest.job.planned_at == left.next_run_at

    harness.run(body)


def test_many_orgs_are_fired_in_sets(harness: Harness) -> None:
    """Each schedule once, and nothing is due afterwards."""

    async def body(store: Store, clock: SetClock) -> None:
        orgs = [f"org-{number}" for number in range(250)]
        await asyncio.gather(*(store.schedules.add(_schedule(clock, org=org)) for org in orgs))
        clock.pass_(3_600)
        assert await _services(store)[1].fire() == len(orgs)
        for org in orgs[::50]:
            assert await _runs(store, org=org) == [clock.now()]
        assert await store.schedules.next_planned(_KNOWN) == after(clock.now(), 3_600)

    harness.run(body)


def test_a_run_is_skipped_or_queued_while_the_last_one_has_not_ended(harness: Harness) -> None:
    """`overlap` decides; a run that has ended holds up no other."""

    async def body(store: Store, clock: SetClock) -> None:
        firer = _services(store)[1]
        await store.schedules.add(_schedule(clock, "skips"))
        await store.schedules.add(_schedule(clock, "queues", overlap="queue"))
        for _ in range(2):
            clock.pass_(3_600)
            await firer.fire()
        assert [len(await _runs(store, name)) for name in ("skips", "queues")] == [1, 2]
        [skipped] = await store.tenant("org-a").schedules("skips")
        assert (skipped.last_outcome, skipped.last_run_at) == ("skipped", clock.now())
        [view] = await store.tenant("org-a").schedule_runs("skips", limit=5)
        await store.cancel(cancel_request(view.job.job_id))
        clock.pass_(3_600)
        await firer.fire()
        assert len(await _runs(store, "skips")) == 2
        busy = await store.schedules.unfinished([PlannedRun("org-a", "skips", clock.now() + 1)])
        assert busy == {("org-a", "skips")}

    harness.run(body)


def test_a_full_queue_delays_a_run_and_loses_none(harness: Harness) -> None:
    """It stays due until there is room."""

    async def body(store: Store, clock: SetClock) -> None:
        app = _app()
        settings = load_settings({"LANGLAUF_STORE": "memory://", "LANGLAUF_MAX_WAITING_PER_ORG": "1"})
        services = make_services(store, app.registry, settings, Hints())
        firer = ScheduleFirer(store, app.registry, services.submissions)
        first, second = _schedule(clock), _schedule(clock, "second")
        await store.schedules.add(first)
        await store.schedules.add(second)
        clock.pass_(3_600)
        assert await firer.fire() == 1
        due = [one.next_run_at == clock.now() for one in await store.tenant("org-a").schedules()]
        assert sorted(due) == [False, True]
        await claim(store, 1)
        clock.pass_(2)
        assert await firer.fire() == 1
        assert {*await _runs(store), *await _runs(store, "second")} == {first.next_run_at}

    harness.run(body)


def test_an_input_that_is_no_longer_valid_is_told_and_stops_nothing(harness: Harness) -> None:
    """The schedule goes on: the next version of the analysis may take it."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.schedules.add(_schedule(clock, input='{"region":5}'))
        clock.pass_(3_600)
        assert await _services(store)[1].fire() == 0
        [one] = await store.tenant("org-a").schedules()
        assert (one.last_outcome or "").startswith("invalid: ")
        assert one.next_run_at == after(clock.now(), 3_600)

    harness.run(body)


def test_a_zone_that_this_machine_does_not_know_stops_no_other_schedule(harness: Harness) -> None:
    """It was made on another one: it says so and is tried again, and what is due beside it is fired."""

    async def body(store: Store, clock: SetClock) -> None:
        services, firer = _services(store)
        now = clock.now()
        strange: dict[str, Any] = {"cron": "0 6 * * *", "every_seconds": None, "zone": "Mars/Olympus"}
        await store.schedules.add(_schedule(clock, "strange", next_run_at=now, **strange))
        await store.schedules.add(_schedule(clock, next_run_at=now))
        assert await firer.fire() == 1
        assert await _runs(store) == [now]
        found = await services.schedules.one("org-a", "strange")
        assert found is not None
        assert (found.last_outcome or "").startswith("invalid: 'Mars/Olympus' is no time zone")
        assert found.next_run_at == after(now, 3_600)
        assert shown_runs(found) == [found.next_run_at]

    harness.run(body)


def test_a_job_knows_its_schedule_and_its_worker_the_planned_time(harness: Harness) -> None:
    """The claim brings it."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.schedules.add(_schedule(clock))
        clock.pass_(3_600.25)
        await _services(store)[1].fire()
        [made] = await claim(store, 1)
        view = await store.tenant("org-a").job(made.lease.job_id)
        assert view is not None
        assert (view.job.schedule, view.job.planned_at) == ("hourly", made.planned_at)
        assert made.planned_at == clock.now() - 250_000
        assert view.job.status is Status.RUNNING

    harness.run(body)


def test_code_adds_changes_and_removes_its_schedules(harness: Harness) -> None:
    """A pause of people stays; what people have made is left alone."""

    async def body(store: Store, clock: SetClock) -> None:
        def services(**rules: Any) -> Services:
            app = Langlauf(settings=load_settings({"LANGLAUF_STORE": "memory://"}))

            @app.analysis(**rules)
            async def survey(job: Job, region: str = "BE") -> dict[str, Any]:
                return {}

            return make_services(store, app.registry, app.settings, Hints())

        tenant = store.tenant("default-org")
        await services(every="0 6 * * *", zone="Europe/Zurich", given={"region": "ZH"}).schedules.follow_code()
        [one] = await tenant.schedules()
        assert (one.name, one.cron, one.zone, one.source) == ("survey", "0 6 * * *", "Europe/Zurich", "code")
        assert one.input == '{"region":"ZH"}'
        await services().schedules.change("default-org", "survey", {"paused": True})
        await services(every="15m").schedules.follow_code()
        [changed] = await tenant.schedules()
        assert (changed.cron, changed.every_seconds, changed.paused, changed.next_run_at) == (None, 900.0, True, None)
        mine = _schedule(clock, "mine", org="default-org")
        await store.schedules.add(mine)
        await services().schedules.follow_code()
        assert await tenant.schedules() == [mine]

    harness.run(body)
