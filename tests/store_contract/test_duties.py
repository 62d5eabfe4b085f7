"""What every store keeps about duties: the last success of each, at the store's own time, whoever had it."""

from langlauf.background import DutyRecorder
from langlauf.domain.health import DutySuccess
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock


def test_the_last_success_of_each_is_kept(harness: Harness) -> None:
    """A later success takes the place of an earlier one, on whichever host; an earlier one that comes late does not."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.duties.record_success("sweep", "one")
        clock.pass_(5)
        await store.duties.record_success("sweep", "two")
        await store.duties.record_success("retention", "one")
        kept = [DutySuccess("retention", clock.now(), "one"), DutySuccess("sweep", clock.now(), "two")]
        assert await store.duties.successes() == kept
        clock.pass_(-60)
        await store.duties.record_success("sweep", "three")
        assert await store.duties.successes() == kept

    harness.run(body)


def test_a_duty_is_not_noted_every_time(harness: Harness) -> None:
    """Within the pause nothing is written; after it the next success is."""

    async def body(store: Store, clock: SetClock) -> None:
        notes = DutyRecorder(store.duties.record_success, every=3_600)
        await notes.record("sweep")
        kept = await store.duties.successes()
        clock.pass_(30)
        await notes.record("sweep")
        assert await store.duties.successes() == kept
        await DutyRecorder(store.duties.record_success, every=0).record("sweep")
        [done] = await store.duties.successes()
        assert done.succeeded_at == clock.now()

    harness.run(body)
