"""The mark of an org: another one after every change of its jobs, and only of its own."""

from langlauf.clock import new_id
from langlauf.domain.attempt import Progress
from langlauf.domain.outcome import Completed
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, started


def test_every_change_of_a_job_changes_the_mark_of_its_org(harness: Harness) -> None:
    """Accepted, started, further, asked to stop, ended; another org's mark stays as it was."""

    async def body(store: Store, clock: SetClock) -> None:
        marks = list[str]()

        async def note() -> None:
            clock.pass_(0.001)
            both = await store.org_versions([ORG, "org-b"])
            assert sorted(both) == [ORG, "org-b"]
            assert both["org-b"] == other
            marks.append(both[ORG])

        other = (await store.org_versions(["org-b"]))["org-b"]
        await note()
        job = await accept(store, clock)
        await note()
        [taken] = await claim(store)
        await note()
        assert await store.record(taken.lease, Progress(percent=50))
        await note()
        await store.cancel(cancel_request(job.job_id))
        await note()
        assert await store.record(taken.lease, Completed(result_id=new_id(), payload="1"))
        await note()
        await accept(store, clock, query="waits")
        await note()
        assert len(set(marks)) == len(marks)
        before = marks[-1]
        await note()
        assert marks[-1] == before, "nothing happened"

    harness.run(body)


def test_a_waiting_job_that_is_canceled_changes_the_mark(harness: Harness) -> None:
    """It never ran."""

    async def body(store: Store, clock: SetClock) -> None:
        await started(store, clock)
        job = await accept(store, clock)
        before = await store.org_versions([ORG])
        await store.cancel(cancel_request(job.job_id))
        assert await store.org_versions([ORG]) != before
        assert await store.org_versions([]) == {}

    harness.run(body)
