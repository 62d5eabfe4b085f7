"""Erasing an org: everything that names it goes, nothing of others is touched, and nothing is written afterwards."""

import asyncio
from typing import Any

import msgspec
import pytest

from langlauf.compat.v1_export import ExportReport, export_from
from langlauf.domain.access import ApiKey, HashedKey, Scope
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.delivery import FINAL_SUBJECTS, WebhookEndpoint
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import after
from langlauf.domain.outcome import Completed
from langlauf.domain.result import HoldRequest
from langlauf.domain.schedule import PauseRequest, Schedule
from langlauf.maintenance.erasure import count_org, erase
from langlauf.store.admin import KEYS, KNOWN_AS, OF_JOBS
from langlauf.store.protocol import Store
from langlauf.store.tools.location import PostgresLocation, SqliteLocation
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock

TABLES = {
    "sqlite": "SELECT one.name, part.name FROM sqlite_schema AS one JOIN pragma_table_info(one.name) AS part "
    "WHERE one.type = 'table' AND part.name IN ('org', 'org_id') GROUP BY one.name HAVING part.name = max(part.name)",
    "postgres": "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables "
    "USING (table_schema, table_name) WHERE table_schema = 'langlauf' AND column_name = 'org_id' "
    "AND table_type = 'BASE TABLE'",
}


def tables_of(bed: StoreUnderTest) -> dict[str, tuple[str, str]]:
    """Every table with rows of orgs, asked past the store: by its known name, what it is and how it names orgs."""
    found = {KNOWN_AS.get(name, name): (name, column) for name, column in bed.query(TABLES[bed.kind])}
    return dict(sorted(found.items()))


def everything(bed: StoreUnderTest, org_id: str) -> dict[str, list[str]]:
    """Every row of an org, table by table, as text."""
    schema = "langlauf." if bed.kind == "postgres" else ""
    named = {"org_id": "org_id = ?", "org": "org = (SELECT org FROM orgs WHERE org_id = ?)"}
    found = {}
    for known, (table, column) in tables_of(bed).items():
        rows: list[Any] = bed.query(f"SELECT * FROM {schema}{table} WHERE {named[column]}", org_id)
        found[known] = sorted(map(repr, rows))
    return found


async def fill(store: Store, clock: SetClock, org_id: str) -> None:
    """Jobs in every state, a key, and somebody who is told of ends."""
    make = JobFactory(store, clock, org_id)
    told = WebhookEndpoint(
        org_id=org_id,
        endpoint_id=org_id,
        url="https://a.example/",
        name="",
        subjects=FINAL_SUBJECTS,
        created_at=clock.now(),
    )
    assert await store.deliveries.add_endpoint(told) is not None
    await make.one_of_each()
    await make.completed(2, key="k")
    plan = Schedule(
        org_id=org_id, name="daily", analysis="survey", cron="0 6 * * *", next_run_at=after(clock.now(), DAY)
    )
    assert await store.schedules.add(plan)
    await store.pause(PauseRequest(analysis="survey", org_id=org_id, because=f"{org_id} asked for it"))
    scopes = frozenset({Scope.READ})
    key = ApiKey(key_id=f"llk_{org_id}", org_id=org_id, name=f"of {org_id}", scopes=scopes, created_at=clock.now())
    assert await store.access.create_key(HashedKey(key, "0" * 64)) is not None


def test_all_of_an_org_goes_and_nothing_of_another(bed: StoreUnderTest) -> None:
    """Byte by byte the other org is what it was; of this one only what a revoked key was is left."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await fill(store, clock, "org-a")
        await fill(store, clock, "org-b")
        before = everything(bed, "org-b")
        assert all(before[table] for table in (OF_JOBS & set(before) - {"leases"}) | {"schedules", "pauses"})
        found = await count_org(store, "org-a")
        assert found.rows == {name: len(rows) for name, rows in everything(bed, "org-a").items() if rows}
        done = await erase(store, "org-a", with_held=False, stop_seconds=0)
        assert done.removed == {table: count for table, count in found.rows.items() if table != KEYS}
        assert done.keys_kept == 1
        left = everything(bed, "org-a")
        assert {table for table, rows in left.items() if rows} == {KEYS}
        assert "of org-a" not in left[KEYS][0]
        assert everything(bed, "org-b") == before
        [key] = await store.access.keys("org-a")
        assert (key.name, key.revoked_at) == ("", clock.now())
        again = await erase(store, "org-a", with_held=False, stop_seconds=0)
        assert (again.removed, again.keys_kept) == ({}, 1)

    clock = SetClock()
    bed.play(scene, clock)
    assert bed.check(clock) == []


def test_every_table_with_orgs_is_known_to_it(bed: StoreUnderTest) -> None:
    """What the catalog has is what is counted: a table that comes later is not forgotten, and is emptied too."""
    schema = "langlauf." if bed.kind == "postgres" else ""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        made = f"CREATE TABLE {schema}of_tomorrow (org_id text, number integer, PRIMARY KEY (org_id, number))"
        bed.query(made)
        if bed.kind == "postgres":
            bed.query("GRANT ALL ON langlauf.of_tomorrow TO langlauf_engine")
        bed.query(f"INSERT INTO {schema}of_tomorrow VALUES ('org-a', 1), ('org-a', 2), ('org-b', 3)")
        assert list(await store.orgs.rows("org-a")) == list(tables_of(bed))
        done = await erase(store, "org-a", with_held=False, stop_seconds=0)
        assert done.removed == {"of_tomorrow": 2}
        assert bed.query(f"SELECT org_id, number FROM {schema}of_tomorrow") == [("org-b", 3)]

    bed.play(scene)


def test_a_late_worker_writes_nothing(bed: StoreUnderTest) -> None:
    """A job that does not stop is taken away; whatever its worker writes afterwards is refused and leaves no row."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        claim = await make.partial(1)
        await erase(store, "org-a", with_held=False, stop_seconds=0)
        late = (
            Progress(percent=90),
            Checkpoint(key="late", payload="1"),
            Partial(result_id="late-1", payload="{}"),
            Completed(result_id="late-2", payload="{}"),
        )
        for write in late:
            assert not await store.record(claim.lease, write)
        [renewal] = await store.renew([claim.lease], lease_seconds=15)
        assert not renewal.held
        assert (await count_org(store, "org-a")).rows == {}

    bed.play(scene)


def test_a_worker_that_stops_is_waited_for(bed: StoreUnderTest) -> None:
    """It is asked to; when it has written its end, nothing needs force."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        claim = await make.running()
        erasing = asyncio.create_task(erase(store, "org-a", with_held=False, stop_seconds=20))
        while True:
            [renewal] = await store.renew([claim.lease], lease_seconds=15)
            if renewal.cancel_reason is not None:
                break
            await asyncio.sleep(0.01)
        assert renewal.held
        assert await store.record(claim.lease, Completed(result_id="last", payload="{}"))
        await erasing
        assert (await count_org(store, "org-a")).rows == {}

    bed.play(scene)


def test_what_is_held_keeps_an_org(bed: StoreUnderTest) -> None:
    """Nothing is changed, not even its keys, unless held results are to go too."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await fill(store, clock, "org-a")
        job = await store.tenant("org-a").job(await make.completed(1))
        assert job is not None
        assert job.job.result_id is not None
        await store.hold(HoldRequest(org_id="org-a", result_id=job.job.result_id))
        before = everything(bed, "org-a")
        with pytest.raises(StoreError, match="1 results of org-a are held"):
            await erase(store, "org-a", with_held=False, stop_seconds=0)
        assert everything(bed, "org-a") == before
        await erase(store, "org-a", with_held=True, stop_seconds=0)
        assert set((await count_org(store, "org-a")).rows) == {KEYS}

    bed.play(scene)


def test_what_is_held_meanwhile_keeps_its_result(bed: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds a result after the look at the org: it stays whole, and the erase says that something is left."""

    async def scene(store: Store, make: JobFactory, _: SetClock) -> None:
        view = await store.tenant("org-a").job(await make.completed(1))
        assert view is not None
        assert view.job.result_id is not None
        wish = HoldRequest(org_id="org-a", result_id=view.job.result_id)
        forget = store.orgs.forget_keys

        async def held_just_then(org_id: str) -> int:
            await store.hold(wish)
            return await forget(org_id)

        monkeypatch.setattr(store.orgs, "forget_keys", held_just_then)
        with pytest.raises(StoreError, match=r"still has .* of jobs"):
            await erase(store, "org-a", with_held=False, stop_seconds=0)
        kept = await store.tenant("org-a").result(wish.result_id, latest=False)
        assert kept is not None
        assert kept.delivered.payload is not None

    bed.play(scene)


def test_what_still_comes_is_told(bed: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An org into which somebody goes on submitting is not said to be erased."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(0)
        remove = store.orgs.remove_rows

        async def busy(org_id: str, table: str, limit: int) -> int:
            if table == "lanes":
                await make.queued()
            return await remove(org_id, table, limit)

        monkeypatch.setattr(store.orgs, "remove_rows", busy)
        with pytest.raises(StoreError, match=r"still has .* of jobs"):
            await erase(store, "org-a", with_held=False, stop_seconds=0)
        monkeypatch.undo()
        await erase(store, "org-a", with_held=False, stop_seconds=0)
        assert (await count_org(store, "org-a")).rows == {}

    bed.play(scene)


def exported(bed: StoreUnderTest, org_id: str | None) -> tuple[dict[str, Any], ExportReport]:
    """The document of an export, and its report."""
    place = PostgresLocation(bed.place, bed.place) if bed.kind == "postgres" else SqliteLocation(bed.place)
    pieces: list[bytes] = []
    report = export_from(place, pieces.append, None, org_id)
    return msgspec.json.decode(b"".join(pieces)), report


def test_an_export_of_one_org_has_all_of_it_and_nothing_of_another(bed: StoreUnderTest) -> None:
    """Every table that names the org is in it, hashes and secrets aside; afterwards it can be erased, and is empty."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await fill(store, clock, "org-a")
        await fill(store, clock, "org-b")

    bed.play(scene)
    document, report = exported(bed, "org-a")
    whole, _ = exported(bed, None)
    text = msgspec.json.encode(document)
    assert b"org-b" not in text
    assert b"secret_hash" not in text
    rows = {table: len(found) for table, found in everything(bed, "org-a").items()}
    [[messages]] = bed.query("SELECT count(*) FROM notifications WHERE org_id = 'org-a'")
    assert (report.jobs, report.results, report.notifications) == (
        rows["jobs"],
        rows["job_results"],
        messages,
    )
    assert (report.jobs, report.events) == (len(document["jobs"]), rows["job_events"])
    schema = "langlauf." if bed.kind == "postgres" else ""
    for table, count in report.also.items():
        assert bed.query(f"SELECT count(*) FROM {schema}{table} WHERE org_id = 'org-a'") == [(count,)], table
        assert len(document["also"][table]) == count
    elsewhere = OF_JOBS - {"lanes", "leases", KEYS}
    assert set(document["also"]) >= set(rows) - elsewhere - {"orgs"}
    assert not set(document["also"]) & elsewhere
    assert [key["name"] for key in document["also"][KEYS]] == ["of org-a"]
    for kind in ("jobs", "events", "results", "notifications"):
        assert document[kind].items() <= whole[kind].items()
    assert "also" not in whole
