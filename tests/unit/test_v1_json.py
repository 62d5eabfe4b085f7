"""The JSON store of the earlier system: taken over whole or not at all, once, and written back without loss."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from langlauf.compat import v1_import as importing
from langlauf.compat.v1_export import export_from
from langlauf.compat.v1_import import import_v1
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import from_text, to_text
from langlauf.domain.result import RetentionPolicy
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.snapshot import put_rows
from langlauf.store.tools.location import SqliteLocation
from langlauf.store.tools.store_copy import Row, Table
from tests.support.stores import DAY, JobFactory, SetClock, play, query
from tests.support.v1_store import FULL, NOON, Document, bring, earlier_store
from tests.support.verified_file import verify_file


def export(path: Path) -> Document:
    """A store as a document."""
    pieces: list[bytes] = []
    report = export_from(SqliteLocation(str(path)), pieces.append)
    document: Document = json.loads(b"".join(pieces))
    assert report.jobs == len(document["jobs"])
    assert report.events == sum(len(log) for log in document["events"].values())
    return document


def job_of(path: Path, *columns: str) -> tuple[object, ...]:
    """Columns of the only job."""
    [row] = query(path, f"SELECT {', '.join(columns)} FROM jobs")
    return row


def test_an_earlier_store_is_taken_over(tmp_path: Path) -> None:
    """Every record arrives with its org, input and time, and the store keeps all its invariants."""
    path, report = bring(tmp_path, FULL)
    assert (report.jobs, report.events, report.results, report.notifications, report.lost) == (3, 8, 3, 1, 1)
    assert query(path, "SELECT job_id, org_id, analysis, status FROM jobs ORDER BY job_id") == [
        ("alive", "default-org", "address", "partial"),
        ("done", "acme", "address", "completed"),
        ("waits", "default-org", "address", "queued"),
    ]
    assert query(path, "SELECT payload FROM job_inputs ORDER BY job_id") == [
        ('{"query":"Chur"}',),
        ('{"intelligence_mode":"basic","query":"Bern"}',),
        ('{"query":"Genf"}',),
    ]
    assert query(path, "SELECT payload, summary_json FROM job_results ORDER BY result_id") == [
        ('{"n":1}', None),
        ('{"n":1.1}', '{"a":1}'),
        ("[1,2]", None),
    ]
    assert query(path, "SELECT DISTINCT org_id FROM job_events WHERE job_id = 'done'") == [("acme",)]
    [(started, finished)] = query(path, "SELECT started_at, finished_at FROM jobs WHERE job_id = 'done'")
    assert (started, finished) == (from_text("2026-03-01T12:00:01Z"), from_text("2026-03-01T12:00:05Z"))
    assert verify_file(str(path)) == []


def test_words_and_secrets_of_the_earlier_log_are_ours_afterwards(tmp_path: Path) -> None:
    """`job.started` is `job.running`, and a secret in a payload is masked."""
    path, _ = bring(tmp_path, FULL)
    assert query(
        path, "SELECT event_type, payload_json FROM job_events WHERE job_id = 'done' AND event_seq IN (2, 4)"
    ) == [
        ("job.running", "{}"),
        ("job.completed", '{"token":"[redacted]"}'),
    ]


def test_a_running_job_lost_its_worker_and_goes_on(tmp_path: Path) -> None:
    """A job that was under way is claimed and completed here, after its earlier snapshots."""
    path, _ = bring(tmp_path, FULL)

    async def scene(store: SqliteStore, make: JobFactory, clock: SetClock) -> None:
        make.org_id = "default-org"
        view = await store.tenant("default-org").job("alive")
        assert view is not None
        assert (view.job.lost_count, view.job.next_attempt_at, view.job.event_seq) == (1, clock.now(), 4)
        events = await store.tenant("default-org").events("alive", after=0, limit=10)
        assert events[-1].event_type == "job.lease_lost"
        claim = await make.claim(view.job)
        assert (claim.lease.attempt, claim.payload, claim.progress_percent) == (2, '{"query":"Chur"}', 50)
        await make.finish(claim, snapshots=1)
        assert [one.result_seq for one in await store.tenant("default-org").results("alive")] == [1, 2, 3]

    play(path, scene)
    assert verify_file(str(path)) == []


def test_a_waiting_job_is_claimed(tmp_path: Path) -> None:
    """A queued job stands in its lane after the import."""
    path, _ = bring(tmp_path, FULL)

    async def scene(store: SqliteStore, make: JobFactory, clock: SetClock) -> None:
        assert (await store.depth()).waiting == 1
        view = await store.tenant("default-org").job("waits")
        assert view is not None
        claims = [await make.claim(view.job), await make.claim(view.job)]
        assert {claim.lease.job_id for claim in claims} == {"waits", "alive"}

    play(path, scene)


def test_a_cancel_that_was_wished_is_done(tmp_path: Path) -> None:
    """A job that was to stop when the earlier system ended is canceled, not started again."""
    document = earlier_store(
        status="running", started_at=NOON, cancel_requested_at=NOON, canceled_by="user", event_seq=2
    )
    document["events"]["j1"] = [
        {"event_type": "job.queued", "event_seq": 1, "occurred_at": NOON},
        {"event_type": "job.running", "event_seq": 2, "occurred_at": NOON},
    ]
    path, _ = bring(tmp_path, document)
    assert job_of(path, "status", "canceled_by", "cancel_reason", "event_seq") == ("canceled", "user", "unknown", 3)
    assert query(path, "SELECT event_type FROM job_events WHERE event_seq = 3") == [("job.canceled",)]
    assert verify_file(str(path)) == []


@pytest.mark.parametrize(
    ("job", "columns", "values"),
    [
        (
            {"status": "failed"},
            ("error_code", "error_message", "retryable"),
            ("internal", "The earlier system noted no reason.", 0),
        ),
        (
            {"status": "failed", "error_code": "ADDRESS_INTEL", "error_message": "password=hunter22"},
            ("error_code", "error_message"),
            ("address_intel", "password=[redacted]"),
        ),
        (
            {"status": "canceled"},
            ("canceled_by", "cancel_reason", "started_at", "attempt"),
            ("system", "unknown", None, 0),
        ),
        ({"status": "completed", "result_id": "gone"}, ("result_id", "progress_percent", "attempt"), ("gone", 100, 1)),
        ({"status": "completed"}, ("result_id",), ("j1-lost",)),
        ({"status": "partial"}, ("partial_count", "result_id", "next_attempt_at IS NOT NULL"), (1, "j1-lost", 1)),
        ({"status": "running", "progress_percent": 100.0}, ("progress_percent", "event_seq"), (99, 0)),
        ({"queued_at": "2026-03-01T12:00:00.5+02:00"}, ("queued_at",), (from_text("2026-03-01T10:00:00.500000Z"),)),
        (
            {"request_payload_json": {"query": "Bern"}},
            ("request_payload_hash",),
            (hashlib.sha256(b'{"analysis":"address","input":{"query":"Bern"}}').hexdigest(),),
        ),
    ],
)
def test_what_is_missing_gets_an_honest_filler(
    tmp_path: Path, job: Document, columns: tuple[str, ...], values: tuple[object, ...]
) -> None:
    """A job without the fields its state needs is taken over with fillers that claim nothing."""
    path, _ = bring(tmp_path, earlier_store(**job))
    assert job_of(path, *columns) == values
    assert verify_file(str(path)) == []


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    """A second start imports nothing, also when the JSON has changed meanwhile; and the JSON is never changed."""
    path, first = bring(tmp_path, FULL)
    earlier = tmp_path / "store.v1.json"
    before = earlier.read_bytes()
    again = import_v1(str(path), earlier)
    assert (first.imported, again.imported, again.sha256) == (True, False, first.sha256)
    earlier.write_text("no store any more")
    assert not import_v1(str(path), earlier).imported
    assert hashlib.sha256(before).hexdigest() == first.sha256
    assert query(path, "SELECT count(*) FROM jobs") == [(3,)]


def test_the_same_content_is_not_imported_under_another_name(tmp_path: Path) -> None:
    """By hand, a file may be imported beside others, but its content once."""
    path, _ = bring(tmp_path, FULL)
    copy = tmp_path / "copy.json"
    copy.write_bytes((tmp_path / "store.v1.json").read_bytes())
    assert not import_v1(str(path), copy, once=False).imported
    copy.write_text(json.dumps(earlier_store()))
    assert import_v1(str(path), copy, once=False).imported


def test_a_half_import_cannot_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that breaks off leaves no store behind, and the next one brings everything."""

    def break_off(connection: apsw.Connection, table: Table, rows: Sequence[Row]) -> None:
        if table.name == "job_results":
            raise KeyboardInterrupt
        put_rows(connection, table, rows)

    monkeypatch.setattr(importing, "put_rows", break_off)
    with pytest.raises(KeyboardInterrupt):
        bring(tmp_path, FULL)
    monkeypatch.setattr(importing, "put_rows", put_rows)
    assert [file.name for file in tmp_path.iterdir()] == ["store.v1.json"]
    path, report = bring(tmp_path, FULL)
    assert (report.imported, query(path, "SELECT count(*) FROM jobs")) == (True, [(3,)])


def test_two_programs_import_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another program was faster, its store counts and nothing is imported twice."""
    link = os.link

    def other_first(made: Path, path: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        assert import_v1(str(path), tmp_path / "store.v1.json").imported
        link(made, path)

    monkeypatch.setattr(os, "link", other_first)
    path, report = bring(tmp_path, FULL)
    assert not report.imported
    assert query(path, "SELECT count(*) FROM jobs") == [(3,)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.v1.db", "store.v1.json"]


def test_jobs_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    """A file with a job that the store has is refused as a whole."""
    path, _ = bring(tmp_path, FULL)
    other = tmp_path / "other.json"
    other.write_text(
        json.dumps(earlier_store() | {"jobs": {"new": {"status": "queued"}, "waits": {"status": "queued"}}})
    )
    with pytest.raises(StoreError, match="the job waits of default-org is in the store already"):
        import_v1(str(path), other)
    assert query(path, "SELECT count(*) FROM jobs") == [(3,)]


def test_nothing_is_lost_on_the_way_out_and_in(tmp_path: Path) -> None:
    """Export, import and export again give the same document, keys and chunks included."""
    path = tmp_path / "s.db"
    policy = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=3 * DAY, jobs=90 * DAY)

    async def scene(store: SqliteStore, make: JobFactory, clock: SetClock) -> None:
        for days in (8, 4, 2, 0):  # all gone, events gone, partials gone, whole
            make.org_id = f"org-{days}"
            await make.at_rest()
            clock.pass_(2 * DAY if days else 0)
            if days == 8:
                clock.pass_(2 * DAY)
        await store.retire(policy, dry_run=False)

    play(path, scene)
    first = export(path)
    assert {job["status"] for job in first["jobs"].values()} == {
        "queued",
        "running",
        "partial",
        "completed",
        "failed",
        "canceled",
    }
    assert any(job["result_expired_at"] for job in first["jobs"].values())
    assert any("views" in result for result in first["results"].values())
    assert any(job["events_expired_at"] for job in first["jobs"].values())
    assert any("chunks" in job for job in first["jobs"].values())
    assert any("idempotency_key" in job for job in first["jobs"].values())
    copy, report = bring(tmp_path, first, name="copy")
    assert report.lost == 0
    assert export(copy) == first
    assert verify_file(str(copy)) == []


def test_an_export_has_the_form_of_the_earlier_system(tmp_path: Path) -> None:
    """Version 5, objects by id, logs by job, payloads and inputs as JSON values, times as text."""
    path = tmp_path / "s.db"
    ids: list[str] = []

    async def scene(store: SqliteStore, make: JobFactory, clock: SetClock) -> None:
        ids.append(await make.completed(1))

    play(path, scene)
    document = export(path)
    job = document["jobs"][ids[0]]
    assert document["schema_version"] == 5
    assert job["request_payload_json"] == {"intelligence_mode": "basic", "query": "Bern"}
    assert to_text(from_text(job["finished_at"])) == job["finished_at"]
    assert document["results"][job["result_id"]]["result_payload"] == {"found": "all"}
    assert [event["event_seq"] for event in document["events"][ids[0]]] == [1, 2, 3, 4, 5]
    [message] = document["notifications"].values()
    assert (message["job_id"], message["payload_json"]["status"]) == (ids[0], "completed")
    assert "imported_at" not in job


def test_what_others_call_views_is_left_out(tmp_path: Path) -> None:
    """Only what this program would write is taken for views."""
    earlier = tmp_path / "s.json"
    earlier.write_text(
        '{"schema_version":1,"jobs":{"j":{"status":"completed","result_id":"r"}},"results":{"r":{"job_id":"j",'
        '"result_kind":"final","result_seq":1,"result_payload":{},"views":17}}}'
    )
    import_v1(str(tmp_path / "s.db"), earlier)
    assert query(tmp_path / "s.db", "SELECT payload, views FROM job_results") == [("{}", None)]


def test_numbers_keep_their_digits(tmp_path: Path) -> None:
    """A payload passes through import and export as text: no number is rebuilt."""
    payload = '{"big":123456789012345678901234567890,"exact":1.10}'
    earlier = tmp_path / "s.json"
    earlier.write_text(
        '{"schema_version":1,"jobs":{"j":{"status":"completed","result_id":"r"}},"results":{"r":{"job_id":"j",'
        f'"result_kind":"final","result_seq":0,"result_payload":{payload}}}}}}}'
    )
    import_v1(str(tmp_path / "s.db"), earlier)
    assert query(tmp_path / "s.db", "SELECT payload, result_seq FROM job_results") == [(payload, 1)]
    pieces: list[bytes] = []
    export_from(SqliteLocation(str(tmp_path / "s.db")), pieces.append)
    assert payload.encode() in b"".join(pieces)


@pytest.mark.parametrize("given", ['"text"', "[1, 2]", "5"])
def test_details_of_an_error_become_an_object(tmp_path: Path, given: str) -> None:
    """Whatever the earlier system kept there can be shown afterwards."""
    failed = earlier_store(status="failed", error_meta=json.loads(given), started_at=NOON, finished_at=NOON)
    path, _ = bring(tmp_path, failed)
    [[text]] = query(path, "SELECT error_meta FROM jobs")
    assert json.loads(str(text)) == {"value": json.loads(given)}


def test_a_message_that_had_not_been_sent_does_not_wait_for_ever(tmp_path: Path) -> None:
    """Where it was to go is not in the file: it says so, and does not keep its job from retention."""
    document = earlier_store(status="completed", finished_at=NOON)
    end = {"job_id": "j1", "template_key": "async.job.completed", "delivery_status": "pending"}
    document["notifications"] = {"n1": {**end, "channel": "webhook"}, "n2": {**end, "channel": "in_app"}}
    path, _ = bring(tmp_path, document)
    found = query(path, "SELECT channel, delivery_status, last_error IS NOT NULL FROM notifications ORDER BY channel")
    assert found == [("in_app", "pending", 0), ("webhook", "suppressed", 1)]


def _queued(**times: str) -> Document:
    """Jobs that wait, each with the time of its first event."""
    document = earlier_store()
    document["jobs"] = {name: {"status": "queued", "org_id": "acme"} for name in times}
    document["events"] = {
        name: [{"event_type": "job.queued", "event_seq": 1, "occurred_at": f"2026-01-01T{at}Z"}]
        for name, at in times.items()
    }
    return document


def test_what_is_brought_has_places_in_the_feed_in_the_order_of_time(tmp_path: Path) -> None:
    """Each its own; what a later import brings comes behind, so that nobody who reads a feed misses it."""
    path, _ = bring(tmp_path, _queued(j1="12:00:02", j2="12:00:01", j3="12:00:02"))
    (tmp_path / "later.json").write_text(json.dumps(_queued(j4="11:00:00")))
    assert import_v1(str(path), tmp_path / "later.json", clock=SetClock()).imported
    places = query(path, "SELECT job_id FROM job_events WHERE feed_at IS NOT NULL ORDER BY feed_at")
    assert [job_id for (job_id,) in places] == ["j2", "j1", "j3", "j4"]
    assert verify_file(str(path)) == []
