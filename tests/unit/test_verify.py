"""Verify: a sound store passes, and each fault that is planted is found by its rule and by no other."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.redact import redact_json
from langlauf.domain.result import RetentionPolicy
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from langlauf.store.sqlite.snapshot import check_file
from langlauf.store.tools.verify import RULES
from tests.support.broken_store import Breakable, breakable
from tests.support.outbox import told
from tests.support.store_kinds import store_under_test
from tests.support.stores import DAY, JobFactory, SetClock, query, with_store
from tests.support.verified_file import verify_file

Sound = tuple[Path, dict[str, str], int]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def broken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    """A store with a job in every state, to be broken again and again."""
    with breakable(request.param, tmp_path_factory.mktemp("broken")) as store:
        yield store


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A file with a job in every state, the ids of its jobs, and its time."""
    path = tmp_path_factory.mktemp("sound") / "s.db"
    clock = SetClock()
    return path, with_store(path, clock, lambda store: JobFactory(store, clock).one_of_each()), clock.now()


def test_a_sound_store_has_nothing_to_report(broken: Breakable) -> None:
    """A store of jobs in every state breaks no rule and gives no warning."""
    assert len(broken.ids) > len(Status)
    assert broken.after("") == []


def test_checking_changes_nothing(sound: Sound) -> None:
    """The file has the same bytes after a check as before."""
    path, _, _ = sound
    before = path.read_bytes()
    verify_file(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("days", [4, 8, 91])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_retention_took_is_not_missed(tmp_path: Path, kind: str, days: int) -> None:
    """A store that retention went over is as sound as before."""
    policy = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=3 * DAY, jobs=90 * DAY)
    moved = SetClock()

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()
        await told(make)
        clock.pass_(days * DAY)
        assert (await store.retire(policy, dry_run=False)).events.delete_count > 0

    with store_under_test(kind, tmp_path) as bed:
        bed.play(scene, moved)
        assert [one for one in bed.check(moved) if not one.warning] == []


class Fault(NamedTuple):
    """A fault to plant, from the file of faults."""

    rule: str
    job: str | None
    also: frozenset[str]
    #: the one store that can have it
    only: str | None
    #: what one store finds as well
    there: tuple[str, frozenset[str]]
    sql: str


def faults() -> list[Fault]:
    """All faults of the file."""
    text = Path(__file__).with_name("verify_faults.sql").read_text()
    parts = re.split(
        r"^-- fault: (\w+) on (the store|\w+)(?:, also ([\w ]+))?(?:, in (\w+) only)?(?:, in (\w+) also ([\w ]+))?$",
        text,
        flags=re.MULTILINE,
    )[1:]
    return [
        Fault(rule, None if job == "the store" else job, _words(also), only, (where or "", _words(more)), sql)
        for rule, job, also, only, where, more, sql in zip(*(parts[place::7] for place in range(7)), strict=True)
    ]


def _words(text: str | None) -> frozenset[str]:
    return frozenset((text or "").split())


FAULTS = faults()


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{number}-{fault.rule}" for number, fault in enumerate(FAULTS, 1)])
def test_a_planted_fault_is_found_by_its_rule(broken: Breakable, fault: Fault) -> None:
    """The fault is reported under its rule and job; other rules stay silent unless they are named."""
    if fault.only is not None and fault.only != broken.kind:
        assert broken.after("") == [], f"only {fault.only} can have this fault"
        return
    found = broken.after(fault.sql)
    where, more = fault.there
    assert {one.rule for one in found} == {fault.rule} | fault.also | (more if where == broken.kind else set())
    shown = {one.job_id for one in found if one.rule == fault.rule}
    assert shown == {broken.ids[fault.job] if fault.job else None}
    assert all(one.evidence for one in found)


def test_every_rule_has_a_fault() -> None:
    """No rule is without a test that breaks it; a torn file and a lost blob have tests of their own."""
    assert {fault.rule for fault in FAULTS} == set(RULES) - {"integrity", "blobs_kept"}


def test_warnings_are_not_violations(broken: Breakable) -> None:
    """What can happen without a fault does not make a store unsound."""
    [found] = broken.after(
        "UPDATE job_events SET occurred_at = occurred_at - 9000000 WHERE job_id = :failed AND event_seq = 3"
    )
    assert found.warning


def test_imported_jobs_may_lack_what_was_not_kept(broken: Breakable) -> None:
    """A log with holes and a result_id without its result are accepted where a job was imported."""
    found = broken.after(
        "UPDATE jobs SET imported_at = 1 WHERE job_id IN (:plain, :failed);"
        "DELETE FROM job_results WHERE job_id = :plain;"
        "DELETE FROM job_events WHERE job_id = :plain; DELETE FROM job_events WHERE job_id = :failed AND event_seq = 2"
    )
    assert found == []


def test_an_imported_log_does_not_go_past_its_job(broken: Breakable) -> None:
    """Also an imported job counts at least the events it has."""
    found = broken.after("UPDATE jobs SET imported_at = 1, event_seq = 1 WHERE job_id = :failed")
    assert [one.rule for one in found] == ["event_sequence"]


def test_a_torn_file_is_reported(sound: Sound, tmp_path: Path) -> None:
    """Pages that were overwritten are a violation, not a crash."""
    path, _, now = sound
    torn = tmp_path / "torn.db"
    content = bytearray(path.read_bytes())
    [(root,)] = query(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'event_rows'")
    page = (int(str(root)) - 1) * 4096
    content[page : page + 4096] = b"\xff" * 4096
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
    newer = tmp_path / "newer.db"
    query(newer, "PRAGMA user_version = 7; PRAGMA journal_mode = WAL")
    with pytest.raises(StoreUnavailable, match="schema 7"):
        verify_file(str(newer))


def test_progress_is_told(sound: Sound) -> None:
    """A watcher hears of every rule and of the jobs up to the last."""
    path, ids, now = sound
    steps: list[tuple[str, int, int]] = []
    list(check_file(str(path), now=now, watch=lambda *step: steps.append(step)))
    assert steps[-1] == ("logs", len(ids), len(ids))
    assert {"integrity", "orphans"} <= {what for what, _, _ in steps}


def test_a_check_sees_one_moment(sound: Sound, tmp_path: Path) -> None:
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
    assert {one.rule for one in check_file(str(copy), now=now)} == {"lane_counts", "lane_due"}
    assert ids


def test_masking_finds_secrets_in_depth() -> None:
    """Secrets are found in lists and under telling names; harmless values stay as they are."""
    harmless = {"step": "Reading", "percent": 3, "list": [None, True, "a:b"], "tokens_used": 5}
    assert redact_json(harmless) == harmless
    assert redact_json({"list": ["sk_abcdefgh1234"], "password": "x"}) == {
        "list": ["[redacted]"],
        "password": "[redacted]",
    }
