"""Limits on what runs at once: kept at every claim, and in nobody's way but of those they hold back."""

from langlauf.domain.attempt import Backoff, Claim
from langlauf.domain.job import QueueFull
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, cancel_request, claim, new_job


async def _accept_many(store: Store, clock: SetClock, count: int, **rules: str) -> None:
    for _ in range(count):
        await accept(store, clock, **rules)


def _orgs(claims: list[Claim]) -> list[str]:
    return sorted(made.lease.org_id for made in claims)


async def _complete(store: Store, made: Claim) -> None:
    assert await store.record(made.lease, Completed(result_id=made.lease.job_id, payload="{}"))


def test_an_org_may_have_a_limit(harness: Harness) -> None:
    """No more of its jobs run at once, whatever they are; the room goes to others."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 5, org="org-a")
        await _accept_many(store, clock, 5, org="org-a", analysis="census")
        await _accept_many(store, clock, 3, org="org-b")
        known = ("survey", "census")
        first = await claim(store, 10, analyses=known, max_running_org=2)
        assert _orgs(first) == ["org-a", "org-a", "org-b", "org-b"]
        assert await claim(store, 10, analyses=known, max_running_org=2) == []
        await _complete(store, next(made for made in first if made.lease.org_id == "org-a"))
        assert _orgs(await claim(store, 10, analyses=known, max_running_org=2)) == ["org-a"]

    harness.run(body)


def test_only_live_leases_count_against_an_orgs_limit(harness: Harness) -> None:
    """The slot of a job that was lost is kept for it for a while; one that no sweep takes blocks its org no longer."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 4, org="org-a")
        assert len(await claim(store, 4, max_running_org=2)) == 2
        clock.pass_(LEASE_SECONDS + 0.001)
        assert await claim(store, 4, max_running_org=2) == []
        clock.pass_(LEASE_SECONDS)
        assert len(await claim(store, 4, max_running_org=2)) == 2

    harness.run(body)


def test_jobs_that_had_started_are_bound_as_well(harness: Harness) -> None:
    """They go first, but not beyond the limit of their org."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 4, org="org-a")
        for made in await claim(store, 4):
            assert await store.record(made.lease, Released())
        again = await claim(store, 4, max_running_org=3)
        assert [made.lease.attempt for made in again] == [2, 2, 2]
        assert await claim(store, 4, max_running_org=3) == []

    harness.run(body)


def test_no_due_job_of_a_lane_is_overlooked(harness: Harness) -> None:
    """However few slots there are at a time, all of them get their turn."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 5)
        for made in await claim(store, 5):
            assert await store.record(made.lease, Released())
        assert [len(await claim(store, 2)) for _ in range(4)] == [2, 2, 1, 0]

    harness.run(body)


def test_an_org_at_its_limit_hides_no_due_job_behind_it(harness: Harness) -> None:
    """Dozens of its jobs are due before another org's only one: that one starts all the same, in the same claim."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 30, org="org-a")
        await _accept_many(store, clock, 1, org="org-b")
        claims = sorted(await claim(store, 31), key=lambda made: made.lease.org_id)
        for made in claims:
            assert await store.record(made.lease, Released())
            clock.pass_(0.001)
        taken = await claim(store, 4, max_running_org=1)
        assert _orgs(taken) == ["org-a", "org-b"]
        assert _orgs(await claim(store, 4, max_running_org=2)) == ["org-a"]

    harness.run(body)


def test_an_analysis_at_its_limit_hides_no_due_job_behind_it(harness: Harness) -> None:
    """The same for a limit per analysis, and for analyses that the worker does not know."""

    async def body(store: Store, clock: SetClock) -> None:
        known = ("narrow", "unknown", "survey")
        for name, count in (("unknown", 10), ("narrow", 10), ("survey", 1)):
            await _accept_many(store, clock, count, analysis=name)
        for made in sorted(await claim(store, 30, analyses=known), key=lambda made: known.index(made.analysis)):
            assert await store.record(made.lease, Released())
            clock.pass_(0.001)
        taken = await claim(store, 3, analyses=("narrow", "survey"), limits={"narrow": 1})
        assert sorted(made.analysis for made in taken) == ["narrow", "survey"]

    harness.run(body)


def test_what_was_given_back_goes_on_by_time(harness: Harness) -> None:
    """Whoever is due longest goes first, over all orgs and analyses: a loss or a release costs no turn."""

    async def body(store: Store, clock: SetClock) -> None:
        known = ("survey", "census")
        claims = await _one_of_each(store, clock, known)
        order = [claims[place] for place in (3, 1, 0, 2)]
        for made in order:
            assert await store.record(made.lease, Released())
            clock.pass_(0.001)
        again = [(await claim(store, 1, analyses=known))[0].lease.job_id for _ in claims]
        assert again == [made.lease.job_id for made in order]

    harness.run(body)


def test_retries_go_by_time_within_an_org_and_orgs_by_turns(harness: Harness) -> None:
    """A retry pays a turn like a start, so that no org can start more by failing."""

    async def body(store: Store, clock: SetClock) -> None:
        known = ("survey", "census")
        claims = await _one_of_each(store, clock, known)
        delays = {made.lease.job_id: delay for made, delay in zip(claims, (9.0, 3.0, 6.0, 1.0), strict=True)}
        for made in claims:
            delay = delays[made.lease.job_id]
            assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=delay))
        clock.pass_(10)
        again = [(await claim(store, 1, analyses=known))[0].lease for _ in claims]
        assert again[0].org_id == again[2].org_id != again[1].org_id == again[3].org_id
        for org in ("org-a", "org-b"):
            mine = [delays[lease.job_id] for lease in again if lease.org_id == org]
            assert mine == sorted(mine)

    harness.run(body)


async def _one_of_each(store: Store, clock: SetClock, known: tuple[str, ...]) -> list[Claim]:
    """The claims of a job of two orgs each for each analysis."""
    for org in ("org-a", "org-b"):
        for name in known:
            await accept(store, clock, org=org, analysis=name)
    return await claim(store, 2 * len(known), analyses=known)


def test_a_retry_that_was_canceled_holds_up_nobody(harness: Harness) -> None:
    """Lanes that seem due and are not make room for those that are."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 1, org="org-a")
        await _accept_many(store, clock, 1, org="org-b")
        for made in sorted(await claim(store, 2), key=lambda made: made.lease.org_id):
            assert await store.record(made.lease, Released())
            clock.pass_(0.001)
            if made.lease.org_id == "org-a":
                await store.cancel(cancel_request(made.lease.job_id))
        assert _orgs(await claim(store, 1)) == ["org-b"]

    harness.run(body)


def test_a_retry_that_was_canceled_brings_its_lane_no_turn(harness: Harness) -> None:
    """What is due after it is not due longer than the job of another org, even where there is one slot alone."""

    async def body(store: Store, clock: SetClock) -> None:
        jobs = [await accept(store, clock, org=org) for org in ("org-a", "org-a", "org-b")]
        made = {one.lease.job_id: one.lease for one in await claim(store, 3)}
        for job, delay in zip(jobs, (1.0, 5.0, 3.0), strict=True):
            assert await store.record(made[job.job_id], Retry(code="timeout", message="slow", delay_seconds=delay))
        await store.cancel(cancel_request(jobs[0].job_id))
        clock.pass_(10)
        order = [(await claim(store, 1))[0].lease.job_id for _ in range(2)]
        assert order == [jobs[2].job_id, jobs[1].job_id]

    harness.run(body)


def test_a_lost_job_goes_on_within_the_limit(harness: Harness) -> None:
    """After the sweep it is due, whoever else waits."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 2, org="org-a")
        [lost] = await claim(store, 1)
        clock.pass_(LEASE_SECONDS + 1)
        await store.sweep(grace_seconds=5, backoff=Backoff())
        [again] = await claim(store, 5, max_running_org=1)
        assert (again.lease.job_id, again.lease.attempt) == (lost.lease.job_id, 2)

    harness.run(body)


def test_an_org_held_back_by_its_limit_saves_up_no_turns(harness: Harness) -> None:
    """While one job of an org ran, others had many turns; afterwards it gets its share, not all it missed."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 20, org="org-a")
        await _accept_many(store, clock, 60, org="org-b")
        first = await claim(store, 2, max_running_org=1)
        long = next(made for made in first if made.lease.org_id == "org-a")
        for made in first:
            if made is not long:
                await _complete(store, made)
        assert await _starts(store, 30) == ["org-b"] * 30
        await _complete(store, long)
        assert 5 <= (await _starts(store, 10)).count("org-a") <= 6  # it may be first at equal turns

    harness.run(body)


async def _starts(store: Store, count: int) -> list[str]:
    """The orgs of so many jobs that start one after the other, each when the one before has completed."""
    orgs = []
    for _ in range(count):
        [made] = await claim(store, 1, max_running_org=1)
        orgs.append(made.lease.org_id)
        await _complete(store, made)
    return orgs


def test_queueing_another_analysis_brings_an_org_no_turns_back(harness: Harness) -> None:
    """An org whose analysis is at its limit and that then queues something else shares it with the others."""

    async def body(store: Store, clock: SetClock) -> None:
        known, limits = ("narrow", "survey"), {"narrow": 1}
        await _accept_many(store, clock, 5, org="org-a", analysis="narrow")
        await _accept_many(store, clock, 40, org="org-b")
        assert len(await claim(store, 1, analyses=("narrow",), limits=limits)) == 1
        for _ in range(20):
            [made] = await claim(store, 1, analyses=known, limits=limits)
            await _complete(store, made)
        await _accept_many(store, clock, 10, org="org-a")
        claims = [(await claim(store, 1, analyses=known, limits=limits))[0] for _ in range(10)]
        assert 5 <= _orgs(claims).count("org-a") <= 6

    harness.run(body)


def test_orgs_that_another_worker_left_behind_share_as_well(harness: Harness) -> None:
    """Where one worker moves the turns of its orgs on, two orgs that only another one serves still take turns."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept_many(store, clock, 60, org="org-x")
        await _accept_many(store, clock, 10, org="org-p", analysis="first")
        await _accept_many(store, clock, 10, org="org-q", analysis="second")
        orgs = []
        for _ in range(10):
            orgs += _orgs(await claim(store, 1, analyses=("first", "second")))
            for _ in range(5):
                assert _orgs(await claim(store, 1)) == ["org-x"]
        assert (orgs.count("org-p"), orgs.count("org-q")) == (5, 5)

    harness.run(body)


def test_urgent_jobs_go_first_after_a_limit_held_their_org_back(harness: Harness) -> None:
    """Other orgs are behind the virtual clock as well and wait for the same analysis: that hides no urgent job."""

    async def body(store: Store, clock: SetClock) -> None:
        known = ("census", "survey")
        for org in ("org-a", "org-b"):
            await accept(store, clock, org=org)
        held = await claim(store, 2)
        await accept(store, clock, org="org-a", analysis="census")
        await accept(store, clock, org="org-b")
        await _accept_many(store, clock, 5, org="org-c")
        assert await _starts(store, 5) == ["org-c"] * 5
        urgent = await accept(store, clock, org="org-a", priority_class="expedite")
        for made in held:
            await _complete(store, made)
        claims = [(await claim(store, 1, analyses=known, max_running_org=1))[0].lease for _ in held]
        [first] = [lease.job_id for lease in claims if lease.org_id == "org-a"]
        assert first == urgent.job_id

    harness.run(body)


def test_a_limit_that_cuts_a_share_leaves_no_slot_free(harness: Harness) -> None:
    """What one org cannot take, others get in the same claim, however many are in the way."""

    async def body(store: Store, clock: SetClock) -> None:
        for number in range(12):
            await _accept_many(store, clock, 3, org=f"org-{number:02}", analysis="narrow")
        await _accept_many(store, clock, 9, org="org-z")
        taken = await claim(store, 6, analyses=("narrow", "survey"), limits={"narrow": 2})
        assert sorted(made.analysis for made in taken) == ["narrow"] * 2 + ["survey"] * 4

    harness.run(body)


def test_a_lane_that_was_emptied_hides_nobody(harness: Harness) -> None:
    """After a cut share the rest is dealt out anew: what was just taken is not in the way."""

    async def body(store: Store, clock: SetClock) -> None:
        known, limits = ("narrow", "survey"), {"narrow": 1}
        await _accept_many(store, clock, 6, org="org-z")
        assert len(await claim(store, 5, analyses=known)) == 5
        await accept(store, clock, org="org-a")
        for org in ("org-b", "org-c"):
            await accept(store, clock, org=org, analysis="narrow")
        assert _orgs(await claim(store, 3, analyses=known, limits=limits)) == ["org-a", "org-b", "org-z"]

    harness.run(body)


def test_tidying_up_overlooks_no_due_job(harness: Harness) -> None:
    """A lane without waiting jobs stays while one of its jobs has yet to go on, however late."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock, org="org-a")
        [made] = await claim(store)
        assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=60))
        await _accept_many(store, clock, 5, org="org-b")
        assert await _starts(store, 5) == ["org-b"] * 5
        await store.sweep(grace_seconds=5, backoff=Backoff())
        clock.pass_(61)
        assert _orgs(await claim(store)) == ["org-a"]

    harness.run(body)


def test_a_refused_submission_leaves_nothing_behind(harness: Harness) -> None:
    """No key, no lane and no place in the queue: the same request is accepted as new when there is room."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock, org="org-a", analysis="census")
        rules = {"max_waiting_org": 1, "max_waiting_all": 1, "max_waiting_analysis": 1}
        before = await store.load()
        for org, analysis, limit in (
            ("org-a", "survey", "max_waiting_org"),
            ("org-b", "survey", "max_waiting_all"),
            ("org-b", "census", "max_waiting_analysis"),
        ):
            new = new_job(clock, org=org, analysis=analysis, query="Bern", idempotency_key="k", **{limit: rules[limit]})
            assert isinstance(await store.submit(new), QueueFull)
            assert await store.tenant(org).job(new.job.job_id) is None
        assert await store.load() == before
        assert await store.tenant("org-b").ranks() == []
        await accept(store, clock, org="org-b", query="Basel", idempotency_key="k")

    harness.run(body)


def test_counts_follow_everything_that_waits(harness: Harness) -> None:
    """Submitted, claimed, canceled: the depth is what waits, over all orgs and analyses."""

    async def body(store: Store, clock: SetClock) -> None:
        for name in ("survey", "census"):
            await _accept_many(store, clock, 3, analysis=name)
            await _accept_many(store, clock, 2, analysis=name, org="org-b")
        assert (await store.depth()).waiting == 10
        made = await claim(store, 3, analyses=("survey",))
        job = await accept(store, clock)
        await store.cancel(cancel_request(job.job_id))
        assert (await store.depth()).waiting == 7
        assert await store.record(made[0].lease, Released())
        assert (await store.depth()).waiting == 7
        assert isinstance(await store.submit(new_job(clock, analysis="census", max_waiting_analysis=5)), QueueFull)
        await accept(store, clock, max_waiting_analysis=3)

    harness.run(body)
