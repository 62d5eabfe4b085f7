"""Copying all of a store: nothing is lost, an interruption is made up for, and what must not be copied is refused."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from langlauf.cli.transfer import copy_store_command
from langlauf.compat.v1_import import ImportReport, import_into
from langlauf.domain.access import DEFAULT_SCOPES, ApiKey, HashedKey, hash_key
from langlauf.domain.attempt import Backoff, ClaimRequest
from langlauf.domain.errors import StoreError
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.read_models import MarkRead
from langlauf.domain.schedule import PauseRequest, Schedule
from langlauf.store.protocol import Store
from langlauf.store.tools import store_copy
from langlauf.store.tools.drivers import _reading, copy_store
from langlauf.store.tools.location import parse_location
from langlauf.store.tools.store_copy import TABLES, digest_of
from langlauf.store.tools.verify import Watch
from tests.support.outbox import told
from tests.support.postgres import fetch
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import LEASE_SECONDS, JobFactory, SetClock
from tests.support.v1_store import FULL

#: A copy that kills itself after so many steps.
_KILLED = """
import os, signal, sys
from langlauf.store.tools import store_copy
from langlauf.store.tools.location import parse_location
from langlauf.store.tools.drivers import copy_store

store_copy.ROWS_PER_BATCH = 3
left = int(sys.argv[3])

def watch(*step):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

copy_store(parse_location(sys.argv[1]), parse_location(sys.argv[2]), running=True, watch=watch)
"""
KINDS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"), ("postgres", "postgres")]


@pytest.fixture
def beds(tmp_path: Path) -> Iterator[Any]:
    """Makes empty stores of some kinds."""
    with ExitStack() as stack:

        def make(*kinds: str) -> list[StoreUnderTest]:
            folders = [tmp_path / f"{number}" for number in range(len(kinds))]
            for folder in folders:
                folder.mkdir()
            return [
                stack.enter_context(store_under_test(kind, folder)) for kind, folder in zip(kinds, folders, strict=True)
            ]

        yield make


CODE = CodeVersion(
    analysis="survey", version="1", code_hash="0" * 64, package=None, langlauf="0.1", python="3.12", host="a"
)


def fill(bed: StoreUnderTest, clock: SetClock, folder: Path) -> None:
    """Jobs in every state, of two orgs, with keys, secrets, chunks and what another system left."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()
        await JobFactory(store, clock, "org-ü").one_of_each()
        assert await store.mark_read(MarkRead(org_id="org-a", until=clock.now()))
        assert await store.access.signing_secret("sessions")
        await store.workers.save_codes([CODE])
        await store.pause(PauseRequest(analysis="census", org_id="org-a", because="the source is down"))
        await store.access.end_session("a-session", clock.now() + 3_600_000_000)
        for name in ("llk_000000000001", "llk_000000000002"):
            key = ApiKey(key_id=name, org_id="org-a", name="name", scopes=DEFAULT_SCOPES, created_at=clock.now())
            assert await store.access.create_key(HashedKey(key, hash_key(name.encode())))
        assert await store.access.revoke_key("llk_000000000001", org_id=None)
        for number in range(3):
            await make.queued(query=f"Zürich {number} 🏔")
        plan = Schedule(org_id="org-a", name="daily", analysis="survey", cron="0 6 * * *", next_run_at=clock.now() + 1)
        assert await store.schedules.add(plan)
        await told(make)
        await told(JobFactory(store, clock, "org-ü"))

    bed.play(scene, clock)
    earlier = folder / "earlier.json"
    earlier.write_text(json.dumps(FULL))
    assert brought(bed, earlier, clock).imported


def brought(bed: StoreUnderTest, file: Path, clock: SetClock) -> ImportReport:
    """Imports a file of the earlier system."""
    return import_into(parse_location(bed.place), file, default_analysis="address", clock=clock)


def copied(
    source: StoreUnderTest, target: StoreUnderTest, *, running: bool = True, watch: Watch = lambda *_: None
) -> store_copy.CopyReport:
    """Copies a store."""
    return copy_store(parse_location(source.place), parse_location(target.place), running=running, watch=watch)


def digests(bed: StoreUnderTest) -> dict[str, tuple[int, str]]:
    """How many rows each table has, and their digest."""
    with _reading(parse_location(bed.place))() as store:
        return {table.name: digest_of(store.rows(table)) for table in TABLES}


def run(*arguments: str) -> Result:
    """Runs the command as a person would."""
    return CliRunner().invoke(copy_store_command, list(arguments))


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_copy_is_the_same_and_sound(beds: Any, tmp_path: Path, kinds: tuple[str, str]) -> None:
    """Every table has the same rows, and the copy keeps every rule."""
    source, target = beds(*kinds)
    clock = SetClock()
    fill(source, clock, tmp_path)
    report = copied(source, target)
    assert (report.complete, report.resumed) == (True, False)
    found = digests(source)
    assert digests(target) == found == {name: (one.rows, one.digest) for name, one in report.tables.items()}
    assert all(rows for rows, _ in found.values())
    assert target.check(clock) == source.check(clock) == []


def test_there_and_back_again_is_the_same(beds: Any, tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and back, nothing has changed."""
    first, middle, last = beds("sqlite", "postgres", "sqlite")
    fill(first, SetClock(), tmp_path)
    assert copied(first, middle).complete
    assert copied(middle, last).complete
    assert digests(last) == digests(middle) == digests(first)


def test_a_copy_keeps_the_order_of_arrival_and_of_the_feed(beds: Any, tmp_path: Path) -> None:
    """Jobs have the same order, and what goes out has a place of its own in the order of time."""
    source, target = beds("sqlite", "sqlite")
    fill(source, SetClock(), tmp_path)
    assert copied(source, target).complete
    arrived = "SELECT job_id FROM jobs ORDER BY row"
    assert target.query(arrived) == source.query(arrived)
    places = target.query("SELECT org_id, feed_at FROM job_events WHERE feed_at IS NOT NULL")
    assert len(set(places)) == len(places) > 0
    told = "SELECT org_id, job_id, event_seq FROM job_events WHERE feed_at IS NOT NULL ORDER BY org_id, "
    assert target.query(told + "feed_at") == target.query(told + "occurred_at, row, event_seq")
    assert set(target.query(told + "feed_at")) == set(source.query(told + "feed_at"))


def test_what_was_read_and_what_is_large_comes_along(beds: Any) -> None:
    """A read mark is the job's, and an input of any size its own."""
    source, target = beds("sqlite", "sqlite")

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(0)
        await make.queued(query="x" * 5_000)
        [seen] = (await store.tenant("org-a").inbox(before=None, limit=5)).messages
        assert await store.mark_read(MarkRead(org_id="org-a", notification_id=seen.notification.notification_id))

    source.play(scene)
    assert copied(source, target).complete
    marks = "SELECT status, read_at FROM jobs ORDER BY row"
    assert target.query(marks) == source.query(marks)
    assert [at is not None for _, at in target.query(marks)] == [True, False]
    assert target.query("SELECT length(input) > 5000 FROM inputs") == [(1,)]


@pytest.mark.parametrize(
    "row",
    [
        "job_inputs (org_id, job_id, payload) VALUES ('org-b', :job, '{}')",
        (
            "job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json,"
            " trace_id, request_id) VALUES ('org-b', :job, 9, 'e', 'job.progress', 1, 'system', '{}', 't', 'r')"
        ),
        (
            "job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, created_at, payload)"
            " VALUES ('org-b', 'r', :job, 'final', 1, 1, 1, '{}')"
        ),
        "job_chunks (org_id, job_id, chunk_key, payload, created_at) VALUES ('org-b', :job, 'k', '{}', 1)",
        "idempotency_keys (org_id, idempotency_key, job_id, created_at) VALUES ('org-b', 'k', :job, 1)",
        "leases (org_id, job_id, attempt, worker_id, expires_at, deadline_at) VALUES ('org-a', :job, 7, 'w', 1, 1)",
    ],
    ids=lambda row: row.partition(" ")[0],
)
def test_a_row_of_another_orgs_job_is_not_taken(beds: Any, row: str) -> None:
    """Nor is one without its job, or a lease of another attempt: nothing is changed."""
    [bed] = beds("sqlite")

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> str:
        await JobFactory(store, clock, "org-b").queued()
        return (await make.running()).lease.job_id

    job_id = bed.play(scene)
    before = digests(bed)
    for name in (job_id, "nobody"):
        with pytest.raises(apsw.ConstraintError):
            bed.query(f"INSERT INTO {row}".replace(":job", f"'{name}'"))
    assert digests(bed) == before


@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_a_copy_goes_on_with_the_work(beds: Any, tmp_path: Path, kinds: tuple[str, str]) -> None:
    """What waits is claimed in its order, what ran is taken as lost, and new jobs come behind."""
    source, target = beds(*kinds)
    clock = SetClock()
    fill(source, clock, tmp_path)
    analyses = tuple(name for (name,) in source.query("SELECT DISTINCT analysis FROM jobs"))
    running = {job_id for (job_id,) in source.query("SELECT job_id FROM leases")}
    waiting = {job_id for (job_id,) in source.query("SELECT job_id FROM jobs WHERE finished_at IS NULL")} - running
    assert copied(source, target).complete

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.queued()
        clock.pass_(LEASE_SECONDS + 60)
        swept = await store.sweep(grace_seconds=5, backoff=Backoff())
        assert {one.job_id for one in swept} == running
        request = ClaimRequest(
            worker_id="w", slots=1_000, analyses=analyses, lease_seconds=LEASE_SECONDS, max_running=1_000
        )
        claims = await store.claim(request)
        assert {claim.lease.job_id for claim in claims} == running | waiting

    target.play(scene, clock)
    unserved = {"deliveries_overdue", "schedules_overdue"}  # no server sends or fires here
    assert [one for one in target.check(clock) if one.rule not in unserved] == []


@pytest.mark.parametrize("steps", [1, 12, 30])
@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_a_copy_that_was_killed_goes_on(beds: Any, tmp_path: Path, kinds: tuple[str, str], steps: int) -> None:
    """After kill -9 the half is not served; the next run makes it whole, and brings nothing twice."""
    source, target = beds(*kinds)
    fill(source, SetClock(), tmp_path)
    command = [sys.executable, "-c", _KILLED, source.place, target.place, str(steps)]
    killed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(StoreError, match="is not complete: a copy from"):
        target.play(lambda *_: pytest.fail("it is served"))
    with pytest.raises(StoreError, match="is not complete"):
        target.check(SetClock())
    before = sum(target.query(f"SELECT count(*) FROM {table}")[0][0] for table in ("jobs", "job_inputs", "job_events"))
    assert (before > 0) == (steps > 1)
    report = copied(source, target)
    assert (report.complete, report.resumed) == (True, True)
    assert digests(target) == digests(source)


@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_a_source_that_changes_is_found_out(beds: Any, tmp_path: Path, kinds: tuple[str, str]) -> None:
    """What was written while it was copied is not there: the copy says so, and is not served."""
    source, target = beds(*kinds)
    fill(source, SetClock(), tmp_path)

    def write_meanwhile(step: str, *_: object) -> None:
        if step == "leases":
            source.query("UPDATE jobs SET step = 'changed' WHERE job_id = (SELECT min(job_id) FROM jobs)")

    report = copied(source, target, watch=write_meanwhile)
    assert not report.complete
    assert [name for name, table in report.tables.items() if not table.same] == ["jobs"]
    with pytest.raises(StoreError, match="is not complete"):
        target.play(lambda *_: pytest.fail("it is served"))


@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_a_store_in_use_is_not_filled(beds: Any, tmp_path: Path, kinds: tuple[str, str]) -> None:
    """A target with jobs of its own is left as it is."""
    source, target = beds(*kinds)
    fill(source, SetClock(), tmp_path)

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.queued()

    target.play(scene)
    before = digests(target)
    found = run("--running", source.place, target.place)
    assert found.exit_code == 7, found.output
    assert "is in use, it has jobs" in found.stderr
    assert digests(target) == before


@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_running_work_is_not_copied_unasked(beds: Any, kinds: tuple[str, str]) -> None:
    """Work that goes on in the source would be done twice: somebody has to say that it counts as lost."""
    source, target = beds(*kinds)
    clock = SetClock(10**17)  # leases live longer than this test

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.running()

    source.play(scene, clock)
    refused = run(source.place, target.place)
    assert refused.exit_code == 7, refused.output
    assert "1 attempts run" in refused.stderr
    done = run("--running", "--json", source.place, target.place)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["ok"], said["complete"], said["tables"]["leases"]["rows"]) == (True, True, 1)
    assert said["tables"]["jobs"]["same"] is True


def test_one_target_takes_one_source(beds: Any, tmp_path: Path) -> None:
    """A copy from elsewhere does not go on with another one's half, and a store is not copied into itself."""
    source, other, target = beds("sqlite", "sqlite", "sqlite")
    fill(source, SetClock(), tmp_path)
    fill(other, SetClock(), tmp_path)
    command = [sys.executable, "-c", _KILLED, source.place, target.place, "9"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    with pytest.raises(store_copy.CopyRefused, match="is under way, not from"):
        copied(other, target)
    with pytest.raises(store_copy.CopyRefused, match="into itself"):
        copied(source, source)


def test_two_programs_do_not_fill_one_target(beds: Any, tmp_path: Path) -> None:
    """The second one that goes on with a copy stops the first one before a row comes twice."""
    source, target = beds("sqlite", "postgres")
    fill(source, SetClock(), tmp_path)
    seen: list[str] = []

    def second(step: str, *_: object) -> None:
        if step == "job_inputs" and step not in seen:
            seen.append(step)
            assert copied(source, target).complete

    with pytest.raises(store_copy.CopyRefused, match="another program"):
        copied(source, target, watch=second)
    assert digests(target) == digests(source)


def test_a_missing_source_makes_no_target(tmp_path: Path) -> None:
    """A name that was mistyped leaves nothing behind."""
    found = run(str(tmp_path / "missing.db"), str(tmp_path / "new.db"))
    assert found.exit_code == 1
    assert list(tmp_path.iterdir()) == []


#: The tables of a file behind the records that are copied.
BEHIND = {
    "job_rows": ("jobs", "job_inputs", "leases"),
    "inputs": ("job_inputs",),
    "event_rows": ("job_events",),
    "result_rows": ("job_results",),
    "chunk_rows": ("job_chunks",),
    "key_rows": ("idempotency_keys",),
    "orgs": ("jobs",),
    "analyses": ("jobs", "pace"),
}
#: What these tables call otherwise, number by themselves, count or mark.
RENAMED = {"job", "org", "analysis", "result", "chunk", "name", "expedite", "payload_hash", "payload_ref", "input"}
MADE = {"lease_expires_at", "kept", "feed_at", "version", "waiting", "running", "scheduled", "next_run_at"}


def _columns(bed: StoreUnderTest) -> dict[str, set[str]]:
    """The columns of every table and view."""
    found: dict[str, set[str]] = {}
    rows = (
        fetch(
            bed.place,
            "SELECT relname::text, attname::text FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('r', 'v') AND attnum > 0"
            " AND NOT attisdropped",
        )
        if bed.kind == "postgres"
        else bed.query(
            "SELECT m.name, p.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS p"
            " WHERE m.type IN ('table', 'view')"
        )
    )
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


def test_no_table_and_no_column_of_a_file_is_forgotten(beds: Any) -> None:
    """Whatever the schema has is copied, or is known to be made from the rest."""
    [bed] = beds("sqlite")

    async def scene(*_: object) -> None:
        pass

    bed.play(scene)
    found = _columns(bed)
    known = {table.name: set(table.columns) for table in TABLES}
    views = {name for (name,) in bed.query("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    made = {"lane_rows", "lane_clock", "copying", "workers", "feed_home", "duties", "mail_admissions", "clocks"}
    assert set(found) - views - made == set(known) - views | set(BEHIND)
    assert {name: found[name] for name in set(known) - views} == {name: known[name] for name in set(known) - views}
    for table, records in BEHIND.items():
        assert found[table] - RENAMED - MADE <= set.union(*(known[record] for record in records)), table


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_store_has_the_records_that_are_copied(beds: Any, kind: str) -> None:
    """Under the same names, with the same columns."""
    [bed] = beds(kind)

    async def scene(*_: object) -> None:
        pass

    bed.play(scene)
    found = _columns(bed)
    assert [table.name for table in TABLES if not set(table.columns) <= found.get(table.name, set())] == []
