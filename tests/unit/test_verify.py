"""Verify: a sound store passes, and each fault that is planted is found by its rule and by no other."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.retention import RetentionPolicy
from langlauf.store.masking import masked
from langlauf.store.sqlite.verifying import check_file, verify_file
from langlauf.store.verify import RULES, Violation
from tests.support.stores import DAY, Maker, SetClock, opened, query

Planted = tuple[Path, dict[str, str], int]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """A store with a job in every state, the ids of its jobs, and its time."""
    path = tmp_path_factory.mktemp("sound") / "s.db"
    clock = SetClock()

    async def fill() -> dict[str, str]:
        async with opened(path, clock) as store:
            return await Maker(store, clock).one_of_each()

    return path, asyncio.run(fill()), clock.now()


@pytest.fixture
def plant(sound: Planted, tmp_path: Path) -> Callable[[str], tuple[list[Violation], dict[str, str]]]:
    """Breaks a copy of the store with SQL, past its constraints and triggers, and checks it."""

    def break_and_check(sql: str) -> tuple[list[Violation], dict[str, str]]:
        path, ids, now = sound
        copy = tmp_path / "broken.db"
        shutil.copy(path, copy)
        connection = apsw.Connection(str(copy))
        connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in sql.split(";"):
            connection.execute(statement, ids)
        for _, trigger in triggers:
            connection.execute(str(trigger))
        connection.close()
        return list(check_file(str(copy), now=now)), ids

    return break_and_check


def test_a_sound_store_has_nothing_to_report(sound: Planted) -> None:
    """A store of jobs in every state breaks no rule and gives no warning."""
    path, ids, now = sound
    assert query(path, "SELECT count(*), count(DISTINCT status) FROM jobs") == [(len(ids), 6)]
    assert list(check_file(str(path), now=now)) == []


def test_checking_changes_nothing(sound: Planted) -> None:
    """The file has the same bytes after a check as before."""
    path, _, _ = sound
    before = path.read_bytes()
    verify_file(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("days", [4, 8, 91])
def test_what_retention_took_is_not_missed(tmp_path: Path, days: int) -> None:
    """A store that retention went over is as sound as before."""
    path, clock = tmp_path / "s.db", SetClock()
    policy = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=3 * DAY, jobs=90 * DAY)

    async def run() -> None:
        async with opened(path, clock) as store:
            await Maker(store, clock).one_of_each()
            clock.pass_(days * DAY)
            assert (await store.retire(policy, dry_run=False)).events.delete_count > 0

    asyncio.run(run())
    assert verify_file(str(path)) == []


EVENT = "INSERT INTO job_events SELECT org_id, job_id, {seq}, 'e', '{kind}', occurred_at, actor_type, '{payload}', '', '' FROM job_events WHERE job_id = :{job} ORDER BY event_seq DESC LIMIT 1"
COUNT_ON = "UPDATE jobs SET event_seq = event_seq + 1 WHERE job_id = :{job}"


def one_more(job: str, kind: str, payload: str = "{}") -> str:
    """Appends an event to a job's log, numbered as it should be."""
    seq = f"(SELECT max(event_seq) + 1 FROM job_events WHERE job_id = :{job})"
    return EVENT.format(seq=seq, kind=kind, payload=payload, job=job) + ";" + COUNT_ON.format(job=job)


def facts(job: str, kind: str, change: str) -> str:
    """Changes the payload of a job's events of one kind."""
    return f"UPDATE job_events SET payload_json = json_set(payload_json, {change}) WHERE job_id = :{job} AND event_type = '{kind}'"


#: rule, the job that shows it, how it is broken, and the rules that must report it besides
FAULTS: list[tuple[str, str | None, str, set[str]]] = [
    ("first_event", "queued", "DELETE FROM job_events WHERE job_id = :queued", set()),
    ("first_event", "failed", "DELETE FROM job_events WHERE job_id = :failed AND event_seq = 1", set()),
    ("first_event", "failed", "UPDATE job_events SET event_type = 'job.progress', payload_json = '{\"progress_percent\":0}' WHERE job_id = :failed AND event_seq = 1", set()),
    ("event_types", "released", "UPDATE job_events SET event_type = 'job.vanished' WHERE job_id = :released AND event_type = 'job.released'", set()),
    ("event_types", "released", "UPDATE job_events SET payload_json = '{' WHERE job_id = :released AND event_type = 'job.released'", set()),
    ("event_sequence", "released", "DELETE FROM job_events WHERE job_id = :released AND event_type = 'job.progress'; UPDATE jobs SET progress_percent = 0 WHERE job_id = :released", set()),
    ("event_sequence", "released", "DELETE FROM job_events WHERE job_id = :released AND event_type = 'job.released'", set()),
    ("event_sequence", "queued", "UPDATE jobs SET event_seq = 7 WHERE job_id = :queued", set()),
    ("event_times", "failed", "UPDATE job_events SET occurred_at = occurred_at - 9000000 WHERE job_id = :failed AND event_seq = 3", set()),
    ("legal_transitions", "running", one_more("running", "job.running") + ";UPDATE jobs SET attempt = 2 WHERE job_id = :running; UPDATE leases SET attempt = 2 WHERE job_id = :running", set()),
    ("legal_transitions", "queued", one_more("queued", "job.lease_lost"), set()),
    ("legal_transitions", "canceled", "UPDATE job_events SET event_seq = 3 WHERE job_id = :canceled AND event_seq = 2;" + EVENT.format(seq="2", kind="job.progress", payload='{"progress_percent":0}', job="canceled") + ";" + COUNT_ON.format(job="canceled"), set()),
    ("nothing_after_end", "plain", one_more("plain", "job.progress", '{"progress_percent":100}'), {"progress_never_falls"}),
    ("nothing_after_end", "canceled", one_more("canceled", "job.released"), set()),
    ("one_final_event", "canceled", one_more("canceled", "job.canceled"), {"nothing_after_end"}),
    ("one_final_event", "failed", "DELETE FROM job_events WHERE job_id = :failed AND event_type = 'job.failed'; UPDATE jobs SET event_seq = event_seq - 1 WHERE job_id = :failed", {"state_matches_events"}),
    ("state_matches_events", "released", "UPDATE jobs SET status = 'partial' WHERE job_id = :released", set()),
    ("progress_never_falls", "completed", facts("completed", "job.progress", "'$.progress_percent', 50"), set()),
    ("progress_never_falls", "running", facts("running", "job.progress", "'$.progress_percent', 100") + "; UPDATE jobs SET progress_percent = 100 WHERE job_id = :running", {"progress_bounds"}),
    ("progress_told", "running", "UPDATE jobs SET progress_percent = 60 WHERE job_id = :running", set()),
    ("progress_told", "running", "UPDATE job_events SET payload_json = '{}' WHERE job_id = :running AND event_type = 'job.progress'", set()),
    ("snapshots_told", "stopped", facts("stopped", "job.partial", "'$.result_seq', 4"), set()),
    ("snapshots_told", "plain", facts("plain", "job.completed", "'$.result_id', 'other'"), set()),
    ("snapshots_told", "partial", one_more("partial", "job.partial", '{"result_id":"x","result_seq":3,"progress_percent":30}'), set()),
    ("attempts_told", "recovered", "UPDATE jobs SET attempt = 3 WHERE job_id = :recovered", set()),
    ("retries_told", "retrying", "UPDATE jobs SET retry_count = 2 WHERE job_id = :retrying", set()),
    ("no_secrets", "failed", "UPDATE jobs SET error_message = 'cannot log in with password=hunter22' WHERE job_id = :failed", set()),
    ("no_secrets", "retrying", "UPDATE jobs SET retry_reason = 'https://me:hunter22@host/' WHERE job_id = :retrying", set()),
    ("no_secrets", "running", facts("running", "job.progress", "'$.step', 'Bearer abcdefgh12345678'"), set()),
    ("no_secrets", "running", facts("running", "job.progress", "'$.api_key', 'plain'"), set()),
    ("no_secrets", "running", facts("running", "job.progress", "'$.step', 'Bearer' || char(10) || 'abcdefgh12345678'"), set()),
    ("ended_has_time", "plain", "UPDATE jobs SET finished_at = NULL WHERE job_id = :plain", set()),
    ("ended_has_time", "running", "UPDATE jobs SET finished_at = attempt_started_at WHERE job_id = :running", set()),
    ("times_ordered", "plain", "UPDATE jobs SET queued_at = finished_at + 1 WHERE job_id = :plain", set()),
    ("times_ordered", "plain", "UPDATE jobs SET finished_at = attempt_started_at - 1 WHERE job_id = :plain", set()),
    ("attempt_has_start", "plain", "UPDATE jobs SET started_at = NULL WHERE job_id = :plain", set()),
    ("progress_bounds", "plain", "UPDATE jobs SET progress_percent = 99 WHERE job_id = :plain", {"progress_told"}),
    ("cancel_fields", "canceled", "UPDATE jobs SET cancel_reason = NULL WHERE job_id = :canceled", set()),
    ("cancel_fields", "plain", "UPDATE jobs SET canceled_by = 'user' WHERE job_id = :plain", set()),
    ("cancel_fields", "queued", "UPDATE jobs SET cancel_requested_at = 1 WHERE job_id = :queued", set()),
    ("cancel_fields", "running", "UPDATE jobs SET cancel_requested_at = 1 WHERE job_id = :running", set()),
    ("cancel_fields", "retrying", "UPDATE jobs SET cancel_requested_at = 1, canceled_by = 'user' WHERE job_id = :retrying", set()),
    ("error_fields", "failed", "UPDATE jobs SET error_code = NULL WHERE job_id = :failed", set()),
    ("error_fields", "plain", "UPDATE jobs SET retry_hint = 'retry_with_backoff' WHERE job_id = :plain", set()),
    ("retry_limit", "retrying", "UPDATE jobs SET max_retries = 0 WHERE job_id = :retrying", set()),
    ("input_kept", "queued", "DELETE FROM job_inputs WHERE job_id = :queued", set()),
    ("lease_or_next_attempt", "running", "DELETE FROM leases WHERE job_id = :running", set()),
    ("lease_or_next_attempt", "running", "UPDATE jobs SET next_attempt_at = 1 WHERE job_id = :running", set()),
    ("no_lease_at_rest", "queued", "INSERT INTO leases SELECT org_id, job_id, 0, 'w', 9000000000000000, 9000000000000000 FROM jobs WHERE job_id = :queued", set()),
    ("no_lease_at_rest", "plain", "UPDATE jobs SET next_attempt_at = 1 WHERE job_id = :plain", set()),
    ("lease_attempt", "running", "UPDATE leases SET attempt = 2 WHERE job_id = :running", set()),
    ("lease_overdue", "running", "UPDATE leases SET expires_at = 1 WHERE job_id = :running", set()),
    ("partial_count", "completed", "UPDATE jobs SET partial_count = 3 WHERE job_id = :completed", {"snapshots_told"}),
    ("partial_count", "stopped", "DELETE FROM job_results WHERE job_id = :stopped", {"newest_result"}),
    ("result_sequence", "completed", "UPDATE job_results SET result_seq = 9 WHERE job_id = :completed AND result_kind = 'final'", set()),
    ("one_final_result", "plain", "DELETE FROM job_results WHERE job_id = :plain", {"newest_result"}),
    ("one_final_result", "stopped", "UPDATE job_results SET result_kind = 'final' WHERE job_id = :stopped", {"partial_count"}),
    ("one_final_result", "plain", "DROP INDEX idx_job_results_final; INSERT INTO job_results SELECT org_id, 'twin', job_id, 'final', 2, schema_version, result_payload_ref, created_at, NULL, NULL, '1' FROM job_results WHERE job_id = :plain", {"newest_result", "schema_intact"}),
    ("newest_result", "completed", "UPDATE jobs SET result_id = (SELECT result_id FROM job_results AS r WHERE r.job_id = :completed AND result_seq = 1) WHERE job_id = :completed", {"snapshots_told"}),
    ("newest_result", "queued", "UPDATE jobs SET result_id = 'nowhere' WHERE job_id = :queued", {"snapshots_told"}),
    ("retired_after_end", "running", "UPDATE jobs SET result_expired_at = 1 WHERE job_id = :running", set()),
    ("retired_after_end", "plain", "UPDATE jobs SET events_expired_at = 1 WHERE job_id = :plain", set()),
    ("retired_after_end", "plain", "UPDATE jobs SET result_expired_at = 1 WHERE job_id = :plain", set()),
    ("retired_after_end", "plain", "UPDATE job_results SET removed_at = 1, payload = NULL WHERE job_id = :plain", set()),
    ("in_app_message", "failed", "DELETE FROM notifications WHERE job_id = :failed", set()),
    ("in_app_message", "canceled", "INSERT INTO notifications SELECT org_id, 'n', :canceled, channel, template_key, delivery_status, 0, NULL, :canceled || ':in_app:' || template_key, 0, NULL, 0, '{}' FROM notifications WHERE job_id = :failed", set()),
    ("message_keys", "failed", "UPDATE notifications SET dedupe_key = 'other' WHERE job_id = :failed", set()),
    ("lane_counts", None, "UPDATE lanes SET waiting = 5 WHERE analysis = (SELECT analysis FROM jobs WHERE job_id = :queued)", set()),
    ("lane_counts", None, "DELETE FROM lanes", set()),
    ("idempotency_keys", "queued", "UPDATE idempotency_keys SET payload_hash = 'other' WHERE job_id = :queued", set()),
    ("orphans", "canceled", "DELETE FROM jobs WHERE job_id = :canceled", set()),
    ("schema_intact", None, "DROP INDEX idx_jobs_result_id", set()),
    ("known_values", "queued", "UPDATE jobs SET priority_class = 'royal' WHERE job_id = :queued", set()),
    ("known_values", "queued", "UPDATE jobs SET lost_count = -1 WHERE job_id = :queued", set()),
    ("known_values", "queued", "UPDATE job_events SET actor_type = 'ghost' WHERE job_id = :queued", set()),
    ("known_values", "plain", "UPDATE job_results SET payload = NULL WHERE job_id = :plain", set()),
    ("known_values", "failed", "UPDATE notifications SET delivery_status = 'lost' WHERE job_id = :failed", set()),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "job", "sql", "besides"), FAULTS, ids=[f"{n}-{f[0]}" for n, f in enumerate(FAULTS)])
def test_a_planted_fault_is_found_by_its_rule(
    plant: Callable[[str], tuple[list[Violation], dict[str, str]]],
    rule: str,
    job: str | None,
    sql: str,
    besides: set[str],
) -> None:
    """The fault is reported under its rule and job; other rules stay silent unless they are named."""
    found, ids = plant(sql)
    assert {one.rule for one in found} == {rule} | besides
    assert {one.job_id for one in found if one.rule == rule} == {ids[job] if job else None}
    assert all(one.evidence for one in found)


def test_every_rule_has_a_fault() -> None:
    """No rule is without a test that breaks it; a file that is not sound has one of its own."""
    assert {rule for rule, *_ in FAULTS} == set(RULES) - {"integrity"}


def test_warnings_are_not_violations(plant: Callable[[str], object], tmp_path: Path) -> None:
    """What can happen without a fault does not make a store unsound."""
    plant("UPDATE job_events SET occurred_at = occurred_at - 9000000 WHERE job_id = :failed AND event_seq = 3")
    assert verify_file(str(tmp_path / "broken.db")) == []


def test_imported_jobs_may_lack_what_was_not_kept(plant: Callable[[str], tuple[list[Violation], object]]) -> None:
    """A log with holes and a result_id without its result are accepted where a job was imported."""
    found, _ = plant(
        "UPDATE jobs SET imported_at = 1 WHERE job_id IN (:plain, :failed);"
        "DELETE FROM job_results WHERE job_id = :plain; DELETE FROM notifications WHERE job_id = :plain;"
        "DELETE FROM job_events WHERE job_id = :plain; DELETE FROM job_events WHERE job_id = :failed AND event_seq = 2"
    )
    assert found == []


def test_an_imported_log_does_not_go_past_its_job(plant: Callable[[str], tuple[list[Violation], object]]) -> None:
    """Also an imported job counts at least the events it has."""
    found, _ = plant("UPDATE jobs SET imported_at = 1, event_seq = 1 WHERE job_id = :failed")
    assert [one.rule for one in found] == ["event_sequence"]


def test_a_torn_file_is_reported(sound: Planted, tmp_path: Path) -> None:
    """Pages that were overwritten are a violation, not a crash."""
    path, _, now = sound
    torn = tmp_path / "torn.db"
    content = bytearray(path.read_bytes())
    middle = len(content) // 8192 * 4096
    content[middle : middle + 8192] = b"\xff" * 8192
    torn.write_bytes(content)
    assert "integrity" in {one.rule for one in check_file(str(torn), now=now)}


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    """A missing file, a file of another kind and another schema are refused, and nothing is made."""
    missing = tmp_path / "missing.db"
    with pytest.raises(StoreUnavailable):
        verify_file(str(missing))
    assert not missing.exists()
    other = tmp_path / "other.db"
    other.write_text("not a database " * 100)
    with pytest.raises(StoreUnavailable):
        verify_file(str(other))
    older = tmp_path / "older.db"
    query(older, "PRAGMA user_version = 1; PRAGMA journal_mode = WAL")
    with pytest.raises(StoreUnavailable, match="schema 1"):
        verify_file(str(older))


def test_progress_is_told(sound: Planted) -> None:
    """A watcher hears of every rule and of the jobs up to the last."""
    path, ids, now = sound
    steps: list[tuple[str, int, int]] = []
    list(check_file(str(path), now=now, watch=lambda *step: steps.append(step)))
    assert steps[-1] == ("logs", len(ids), len(ids))
    assert {"integrity", "orphans"} <= {what for what, _, _ in steps}


def test_a_check_sees_one_moment(sound: Planted, tmp_path: Path) -> None:
    """Writes that come while a check is under way do not show in it."""
    path, ids, now = sound
    copy = tmp_path / "busy.db"
    shutil.copy(path, copy)
    steps = 0

    def write_meanwhile(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            query(copy, "DELETE FROM lanes")

    assert list(check_file(str(copy), now=now, watch=write_meanwhile)) == []
    assert [one.rule for one in check_file(str(copy), now=now)] == ["lane_counts"]
    assert ids


def test_masking_finds_secrets_in_depth() -> None:
    """Secrets are found in lists and under telling names; harmless values stay as they are."""
    harmless = {"step": "Reading", "percent": 3, "list": [None, True, "a:b"], "tokens_used": 5}
    assert masked(harmless) == harmless
    assert masked({"list": ["sk_abcdefgh1234"], "password": "x"}) == {"list": ["[redacted]"], "password": "[redacted]"}
