"""Handing out jobs: in fair order, within the limits, to whoever knows them."""

from langlauf.domain.attempt import Backoff
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, cancel_request, claim, event_types, read_job, started


def test_jobs_are_claimed_in_the_order_they_came(harness: Harness) -> None:
    """First in, first out, for one org."""

    async def body(store: Store, clock: SetClock) -> None:
        jobs = [await accept(store, clock) for _ in range(5)]
        claims = await claim(store, 3) + await claim(store, 3)
        assert [made.lease.job_id for made in claims] == [job.job_id for job in jobs]

    harness.run(body)


def test_a_claim_starts_the_job(harness: Harness) -> None:
    """queued becomes running, with a time, an attempt and an event."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock, query="Bern")
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.attempt, job.started_at) == (Status.RUNNING, 1, made.started_at)
        assert made.payload == '{"query":"Bern"}'
        assert await event_types(store, job.job_id) == ["job.queued", "job.running"]
        assert await claim(store) == []

    harness.run(body)


def test_expedite_goes_before_the_same_orgs_default_jobs(harness: Harness) -> None:
    """An urgent job waits for nobody of its own org."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        urgent = await accept(store, clock, priority_class="expedite")
        [made] = await claim(store)
        assert made.lease.job_id == urgent.job_id

    harness.run(body)


def test_no_org_starves_another(harness: Harness) -> None:
    """An org that comes late to a long queue gets every second start, not the last ones."""

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(50):
            await accept(store, clock, org="org-a")
        await claim(store, 10)
        for _ in range(3):
            await accept(store, clock, org="org-b")
        orgs = [made.lease.org_id for made in await claim(store, 6)]
        assert orgs.count("org-b") == 3

    harness.run(body)


def test_a_lane_is_not_punished_for_jobs_it_canceled(harness: Harness) -> None:
    """Turns are counted at starts: what was canceled in the queue costs nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(20):
            job = await accept(store, clock, org="org-a")
            await store.cancel(cancel_request(job.job_id))
        await accept(store, clock, org="org-b")
        await accept(store, clock, org="org-a")
        assert {made.lease.org_id for made in await claim(store, 2)} == {"org-a", "org-b"}

    harness.run(body)


def test_an_org_with_many_analyses_gets_no_more_than_its_share(harness: Harness) -> None:
    """Turns belong to orgs: queueing in three analyses does not make three shares."""

    async def body(store: Store, clock: SetClock) -> None:
        names = ("a1", "a2", "a3")
        for name in names:
            for _ in range(5):
                await accept(store, clock, org="org-a", analysis=name)
        for _ in range(5):
            await accept(store, clock, org="org-b", analysis="a1")
        orgs = [(await claim(store, analyses=names))[0].lease.org_id for _ in range(10)]
        assert (orgs.count("org-a"), orgs.count("org-b")) == (5, 5)

    harness.run(body)


def test_expedite_goes_first_over_all_analyses_of_its_org(harness: Harness) -> None:
    """An urgent job waits for no default job of its org, whatever that one is."""

    async def body(store: Store, clock: SetClock) -> None:
        for name in ("a1", "a2"):
            await accept(store, clock, analysis=name)
        urgent = await accept(store, clock, analysis="a2", priority_class="expedite")
        [made] = await claim(store, analyses=("a1", "a2"))
        assert made.lease.job_id == urgent.job_id

    harness.run(body)


def test_an_analysis_may_have_a_limit_of_its_own(harness: Harness) -> None:
    """No more of it run at once, over all orgs and attempts; the room goes to others."""

    async def body(store: Store, clock: SetClock) -> None:
        for org in ("org-a", "org-b"):
            for _ in range(3):
                await accept(store, clock, org=org, analysis="narrow")
        limits = {"narrow": 2}
        known = ("narrow", "survey")
        first = await claim(store, 10, analyses=known, limits=limits)
        assert sorted(made.lease.org_id for made in first) == ["org-a", "org-b"]
        await accept(store, clock)
        assert [made.analysis for made in await claim(store, 10, analyses=known, limits=limits)] == ["survey"]
        assert await store.record(first[0].lease, Released())
        assert len(await claim(store, 10, analyses=known, limits=limits)) == 1
        assert await store.record(first[1].lease, Completed(result_id="r", payload="{}"))
        assert len(await claim(store, 10, analyses=known, limits=limits)) == 1

    harness.run(body)


def test_only_live_leases_count_against_the_limit(harness: Harness) -> None:
    """The limit holds over all workers; one that vanished blocks nobody, whether or not a sweep can take its jobs."""

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(5):
            await accept(store, clock)
        assert len(await claim(store, 5, max_running=2)) == 2
        assert await claim(store, 5, max_running=2) == []
        clock.pass_(2 * LEASE_SECONDS + 0.001)
        assert len(await claim(store, 5, max_running=2)) == 2

    harness.run(body)


def test_what_was_lost_goes_on_before_others_begin(harness: Harness) -> None:
    """Between the end of a lease and the sweep its slot is not given away: the lost job would wait for a whole run."""

    async def body(store: Store, clock: SetClock) -> None:
        jobs = [await accept(store, clock) for _ in range(5)]
        assert len(await claim(store, 5, max_running=3)) == 3
        await store.cancel(cancel_request(jobs[2].job_id))
        clock.pass_(LEASE_SECONDS + 0.001)
        [begun] = await claim(store, 5, max_running=3)
        assert begun.lease.job_id == jobs[3].job_id, "what is to be canceled needs no slot"
        assert len(await store.sweep(grace_seconds=5.0, backoff=Backoff())) == 3
        again = await claim(store, 5, max_running=3)
        assert [made.lease.attempt for made in again] == [2, 2]
        assert {made.lease.job_id for made in again} == {jobs[0].job_id, jobs[1].job_id}

    harness.run(body)


def test_the_slot_of_a_limited_analysis_is_kept_as_well(harness: Harness) -> None:
    """A lost job's place under the limit of its analysis is not given away before the sweep either."""

    async def body(store: Store, clock: SetClock) -> None:
        lost = await started(store, clock, analysis="census")
        await accept(store, clock, analysis="census")
        await accept(store, clock, analysis="survey")
        clock.pass_(LEASE_SECONDS + 0.001)
        known, limits = ("survey", "census"), {"census": 1}
        assert [made.analysis for made in await claim(store, 5, analyses=known, limits=limits)] == ["survey"]
        await store.sweep(grace_seconds=5.0, backoff=Backoff())
        [again] = await claim(store, 5, analyses=known, limits=limits)
        assert again.lease.job_id == lost.lease.job_id

    harness.run(body)


def test_a_worker_leaves_alone_what_it_does_not_know(harness: Harness) -> None:
    """Jobs of other analyses stay queued, also when they had started before."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock, analysis="census")
        await accept(store, clock, analysis="census")
        assert await store.record(made.lease, Released())
        assert await claim(store, 5, analyses=("survey",)) == []
        assert len(await claim(store, 5, analyses=("survey", "census"))) == 2

    harness.run(body)


def test_jobs_that_had_started_go_first(harness: Harness) -> None:
    """A released job is claimed before any queued one, as a further attempt."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await accept(store, clock, org="org-b")
        assert await store.record(made.lease, Released())
        [again] = await claim(store)
        assert (again.lease.job_id, again.lease.attempt) == (made.lease.job_id, 2)
        events = await event_types(store, made.lease.job_id)
        assert events == ["job.queued", "job.running", "job.released", "job.attempt_started"]

    harness.run(body)


def test_a_retry_is_claimed_when_its_time_has_come(harness: Harness) -> None:
    """Backoff is kept to the microsecond, and the job stays in its state meanwhile."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Retry(code="network_error", message="reset", delay_seconds=30))
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.retry_count, job.error_count) == (Status.RUNNING, 1, 1)
        assert job.retry_reason == "network_error: reset"
        assert job.last_retry_at == clock.now()
        clock.pass_(29.999999)
        assert await claim(store) == []
        clock.pass_(0.000001)
        [again] = await claim(store)
        assert (again.lease.attempt, again.retry_count) == (2, 1)

    harness.run(body)


def test_a_lease_is_renewed_only_while_it_is_held(harness: Harness) -> None:
    """A heartbeat extends a live lease; one that ended stays ended, even if nobody took the job."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        clock.pass_(LEASE_SECONDS - 1)
        [renewal] = await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
        assert renewal.held
        clock.pass_(LEASE_SECONDS - 1)
        assert await store.sweep(grace_seconds=5, backoff=Backoff()) == []
        clock.pass_(1)
        [renewal] = await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
        assert not renewal.held

    harness.run(body)


def test_a_heartbeat_carries_the_wish_to_stop(harness: Harness) -> None:
    """A worker learns of a cancel at its next renewal at the latest."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        [renewal] = await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
        assert (renewal.held, renewal.cancel_reason) == (True, "not needed")

    harness.run(body)


def test_what_runs_took_is_remembered(harness: Harness) -> None:
    """Completed runs make the pace of their analysis; others have none."""

    async def body(store: Store, clock: SetClock) -> None:
        assert await store.paces() == {}
        made = await started(store, clock)
        clock.pass_(10)
        assert await store.record(made.lease, Completed(result_id="r-1", payload="{}"))
        assert await store.paces() == {"survey": 10.0}

    harness.run(body)
