"""A job's log in parts, for whoever follows it, and the look from afar that tells whether there is more."""

import pytest

from langlauf.domain.attempt import Progress
from langlauf.domain.outcome import Completed
from langlauf.domain.result import RetentionPolicy
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import DAY, LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, accept, cancel_request, read_job, started

PLENTY = 1_000_000


@pytest.mark.parametrize(("limit", "most_bytes"), [(1, PLENTY), (3, PLENTY), (100, 1), (100, 200), (100, PLENTY)])
def test_a_log_is_read_in_parts_without_gap_or_repeat(harness: Harness, limit: int, most_bytes: int) -> None:
    """Bounded in events and in bytes; at least one comes each time, and there may be `more` until none does."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        for percent in range(1, 11):
            assert await store.record(made.lease, Progress(percent=percent, step="x" * 50))
        reads, seen, parts = store.tenant(ORG), list[int](), 0
        more = True
        while more:
            page = await reads.log(made.lease.job_id, after=len(seen), limit=limit, most_bytes=most_bytes)
            assert page.events or len(seen) == 12, "only after all of them"
            assert len(page.events) <= limit
            assert sum(len(event.payload_json) for event in page.events[:-1]) < most_bytes
            assert not page.over
            seen += [event.event_seq for event in page.events]
            more, parts = page.more, parts + 1
        assert seen == list(range(1, 13))
        assert (parts == 1) == (limit == 100 and most_bytes == PLENTY)

    harness.run(body)


def test_a_log_says_when_nothing_follows(harness: Harness) -> None:
    """Not while the job goes on; from its last event on; and when it is read past it."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        reads, job_id = store.tenant(ORG), made.lease.job_id
        assert not (await reads.log(job_id, after=2, limit=10, most_bytes=PLENTY)).over
        assert await store.record(made.lease, Completed(result_id="r-1", payload="1"))
        first = await reads.log(job_id, after=0, limit=2, most_bytes=PLENTY)
        assert (len(first.events), first.more, first.over) == (2, True, False)
        last = await reads.log(job_id, after=2, limit=10, most_bytes=PLENTY)
        assert ([event.event_type for event in last.events], last.more, last.over) == (["job.completed"], False, True)
        beyond = await reads.log(job_id, after=3, limit=10, most_bytes=PLENTY)
        assert (beyond.events, beyond.more, beyond.over) == ([], False, True)
        assert (await reads.log("none", after=0, limit=10, most_bytes=PLENTY)).over

    harness.run(body)


def test_a_log_that_retention_took_is_over(harness: Harness) -> None:
    """Also for a reader in the middle of it."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await accept(store, clock)
        await store.cancel(cancel_request(job.job_id))
        clock.pass_(2 * DAY)
        policy = RetentionPolicy(final_results=9 * DAY, partial_results=9 * DAY, events=DAY, jobs=90 * DAY)
        await store.retire(policy, dry_run=False)
        page = await store.tenant(ORG).log(job.job_id, after=1, limit=10, most_bytes=PLENTY)
        assert (page.events, page.more, page.over) == ([], False, True)
        assert (await store.job_fingerprints([(ORG, job.job_id)]))[ORG, job.job_id].events_expired

    harness.run(body)


def test_a_pulse_tells_what_the_job_tells(harness: Harness) -> None:
    """The newest number, what has expired, and the lease; of another org's job it tells nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        key = (ORG, made.lease.job_id)
        for _ in range(2):
            view = await read_job(store, made.lease.job_id)
            [(found, pulse)] = (
                await store.job_fingerprints([key, ("org-b", made.lease.job_id), (ORG, "none")])
            ).items()
            assert found == key
            assert (pulse.event_seq, pulse.lease_expires_at) == (view.job.event_seq, view.lease_expires_at)
            assert (pulse.result_expired, pulse.events_expired) == (False, False)
            assert pulse.lease_expires_at is not None
            clock.pass_(1)
            await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
            assert await store.record(made.lease, Progress(percent=50))
        assert await store.job_fingerprints([]) == {}

    harness.run(body)
