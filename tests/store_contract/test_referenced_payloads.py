"""Payloads outside of a store: a row keeps their reference, and the store tells which ones are still named."""

from langlauf.domain.attempt import Partial
from langlauf.domain.outcome import Completed
from langlauf.domain.result import ReferencedPayloads, RetentionPolicy
from langlauf.store.blobs.protocol import ref_of
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import DAY, SetClock
from tests.support.submissions import ORG, accept, started

REFS = [str(ref_of(bytes([number]))) for number in range(3)]
DAYS = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=None, jobs=None)


def test_a_reference_is_kept_in_the_place_of_a_payload(harness: Harness) -> None:
    """The snapshot has it, there is no payload, and everything else is as ever."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        write = Partial(result_id="r-1", payload=None, payload_ref=REFS[0], summary='{"s":1}')
        assert await store.record(made.lease, write)
        assert await store.record(made.lease, Completed(result_id="r-2", payload=None, payload_ref=REFS[1]))
        kept = await store.tenant(ORG).results(made.lease.job_id)
        assert [(one.result_kind, one.result_payload_ref, one.summary_json) for one in kept] == [
            ("partial", REFS[0], '{"s":1}'),
            ("final", REFS[1], None),
        ]
        found = await store.tenant(ORG).result("r-1", latest=False, payload=False)
        assert found is not None
        assert found.delivered.payload is None

    harness.run(body)


def test_what_rows_name_is_told_by_job(harness: Harness) -> None:
    """Whether more may come, each reference once, nothing of rows that retention took, nothing of who was not asked."""

    async def body(store: Store, clock: SetClock) -> None:
        ended, lives = await started(store, clock, org="o-1"), await started(store, clock, org="o-2")
        for number, ref in enumerate((REFS[0], REFS[0], REFS[1])):
            write = Partial(result_id=f"e-{number}", payload=None, payload_ref=ref)
            assert await store.record(ended.lease, write)
        assert await store.record(ended.lease, Completed(result_id="e-9", payload=None, payload_ref=REFS[2]))
        assert await store.record(lives.lease, Partial(result_id="l-1", payload=None, payload_ref=REFS[0]))
        not_asked, waits = await started(store, clock), await accept(store, clock)
        assert await store.record(not_asked.lease, Partial(result_id="n", payload=None, payload_ref=REFS[0]))
        mine, other = ("o-1", ended.lease.job_id), ("o-2", lives.lease.job_id)
        asked = [mine, other, (ORG, waits.job_id), ("o-1", lives.lease.job_id), (ORG, "never was")]
        expected = {
            mine: ReferencedPayloads(ended=True, refs=frozenset(REFS)),
            other: ReferencedPayloads(ended=False, refs=frozenset(REFS[:1])),
            (ORG, waits.job_id): ReferencedPayloads(ended=False, refs=frozenset()),
        }
        assert await store.kept_payloads(asked) == expected
        assert await store.kept_payloads([]) == {}
        clock.pass_(2 * DAY)
        await store.retire(DAYS, dry_run=False)
        assert await store.kept_payloads([mine]) == {mine: ReferencedPayloads(ended=True, refs=frozenset(REFS[2:]))}

    harness.run(body)
