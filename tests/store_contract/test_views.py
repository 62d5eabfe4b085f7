"""Views beside a snapshot: stored with it, read with its payload alone, and gone with it."""

import pytest

from langlauf.clock import new_id
from langlauf.domain.attempt import Claim, Partial
from langlauf.domain.outcome import Completed
from langlauf.domain.read_models import PastRun
from langlauf.domain.result import RetentionPolicy, StoredResult
from langlauf.maintenance.duties import apply_retention
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock
from tests.support.submissions import ORG, started

VIEWS = '[{"kind":"markdown","text":"half"}]'
OTHER = '[{"kind":"table","at":"/rows"}]'
WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=None, jobs=None)


async def _delivered(store: Store, result_id: str, *, latest: bool = False, payload: bool = True) -> StoredResult:
    found = await store.tenant(ORG).result(result_id, latest=latest, payload=payload)
    assert found is not None
    return found.delivered


def test_each_snapshot_has_the_views_it_was_written_with(harness: Harness) -> None:
    """Partials and the final one each have their own, or none."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload="{}", views=VIEWS))
        assert await store.record(made.lease, Partial(result_id="r-2", payload="{}"))
        assert await store.record(made.lease, Completed(result_id="r-3", payload="{}", summary="{}", views=OTHER))
        assert [(await _delivered(store, name)).views for name in ("r-1", "r-2", "r-3")] == [VIEWS, None, OTHER]
        assert (await _delivered(store, "r-1", latest=True)).views == OTHER

    harness.run(body)


@pytest.mark.parametrize("latest", [False, True])
def test_views_are_not_read_where_nobody_asked_for_the_payload(harness: Harness, latest: bool) -> None:
    """Whoever asks what there is gets neither."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r-1", payload="{}", views=VIEWS))
        found = await _delivered(store, "r-1", latest=latest, payload=False)
        assert (found.payload, found.views) == (None, None)

    harness.run(body)


def test_views_go_with_the_payload(bed: StoreUnderTest) -> None:
    """Retention takes both."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        claim = await make.running()
        assert await store.record(claim.lease, Completed(result_id="r-1", payload="{}", views=VIEWS))
        clock.pass_(7 * DAY)
        report = await apply_retention(store, WEEK)
        assert report.results.delete_count == 1
        gone = await _delivered(store, "r-1")
        assert (gone.payload, gone.views, gone.snapshot.removed_at) == (None, None, clock.now())

    bed.play(scene)
    assert bed.query("SELECT count(*) FROM job_results WHERE views IS NOT NULL") == [(0,)]


async def _completed(store: Store, clock: SetClock, **rules: str) -> Claim:
    made = await started(store, clock, **rules)
    assert await store.record(made.lease, Completed(result_id=new_id(), payload="{}"))
    clock.pass_(1)
    return made


async def _past(store: Store, limit: int = 10, before: tuple[int, str] | None = None) -> list[PastRun]:
    return await store.tenant(ORG).completed("survey", before=before, limit=limit)


def test_an_org_looks_back_at_what_it_completed(harness: Harness) -> None:
    """The last to end comes first; other orgs, other analyses and jobs without an end are not there."""

    async def body(store: Store, clock: SetClock) -> None:
        assert await _past(store) == []
        first = await _completed(store, clock, query="Bern")
        second = await _completed(store, clock, query="Brig")
        await _completed(store, clock, org="org-b")
        await _completed(store, clock, analysis="other")
        running = await started(store, clock)
        assert await store.record(running.lease, Partial(result_id=new_id(), payload="{}"))
        found = await _past(store)
        assert [run.job_id for run in found] == [second.lease.job_id, first.lease.job_id]
        assert [run.payload for run in found] == ['{"query":"Brig"}', '{"query":"Bern"}']
        assert await _past(store, 1) == found[:1]
        for run in found:
            assert (await _delivered(store, run.result_id)).snapshot.result_kind == "final"

    harness.run(body)


def test_a_look_back_goes_on_from_where_it_was(harness: Harness) -> None:
    """Step by step it sees every job once, also those that ended at the same moment."""

    async def body(store: Store, clock: SetClock) -> None:
        claims = [await started(store, clock) for _ in range(5)]
        for number, made in enumerate(claims):
            assert await store.record(made.lease, Completed(result_id=f"r-{number}", payload="{}"))
        seen: list[PastRun] = []
        while page := await _past(store, 2, (seen[-1].finished_at, seen[-1].job_id) if seen else None):
            seen += page
        assert [run.job_id for run in seen] == sorted((made.lease.job_id for made in claims), reverse=True)

    harness.run(body)


def test_what_retention_took_is_not_looked_back_at(harness: Harness) -> None:
    """A job whose result is gone has nothing to compare with."""

    async def body(store: Store, clock: SetClock) -> None:
        await _completed(store, clock)
        clock.pass_(8 * DAY)
        young = await _completed(store, clock)
        await apply_retention(store, WEEK)
        assert [run.job_id for run in await _past(store)] == [young.lease.job_id]

    harness.run(body)
