"""A store as the code of the earlier system writes it: taken over into every store, and given back as it came."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.compat.v1_export import export_from
from langlauf.compat.v1_import import import_into
from langlauf.domain.attempt import Checkpoint
from langlauf.domain.instant import from_text
from langlauf.domain.result import RetentionPolicy
from langlauf.store.protocol import Store
from langlauf.store.tools.location import parse_location
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import DAY, JobFactory, SetClock
from tests.support.submissions import started
from tests.support.v1_store import NOON, WRITTEN_BY_ITS_CODE, Document, earlier_store


@pytest.fixture(params=["sqlite", "postgres"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreUnderTest]:
    """An empty store."""
    with store_under_test(request.param, tmp_path) as made:
        yield made


def brought(bed: StoreUnderTest, folder: Path, document: Document) -> SetClock:
    """Imports a document, and checks that the store keeps every rule; returns the clock of the import."""
    file, clock = folder / "earlier.json", SetClock()
    file.write_text(json.dumps(document))
    assert import_into(parse_location(bed.place), file, default_analysis="address", clock=clock).imported
    assert bed.check(clock) == []
    return clock


def exported(bed: StoreUnderTest) -> Document:
    """The store as a document."""
    pieces: list[bytes] = []
    report = export_from(parse_location(bed.place), pieces.append)
    document: Document = json.loads(b"".join(pieces))
    assert report.results == len(document["results"])
    return document


def _same(name: str, came: Any, went: Any) -> bool:
    if name.endswith("_at") and came is not None and went is not None:
        return from_text(came) == from_text(went)
    return bool(came == went)


def _lost(came: Document, went: Document, *, unknown: frozenset[str]) -> dict[str, tuple[Any, Any]]:
    """The fields of an entry that are not given back as they came."""
    return {
        name: (value, went.get(name))
        for name, value in came.items()
        if name not in unknown and not _same(name, value, went.get(name))
    }


def test_what_its_code_wrote_comes_back_as_it_came(bed: StoreUnderTest, tmp_path: Path) -> None:
    """Names of schemas and users, limits, times, logs, results and messages: texts and numbers alike."""
    brought(bed, tmp_path, WRITTEN_BY_ITS_CODE)
    went = exported(bed)
    results = {key: one["schema_version"] for key, one in WRITTEN_BY_ITS_CODE["results"].items()}
    assert set(results.values()) == {"v1", 2, "2026-02 draft"}
    assert {key: one["schema_version"] for key, one in went["results"].items()} == results
    ownership = frozenset({"owner_user_id", "owner_org_id"})
    for key, result in WRITTEN_BY_ITS_CODE["results"].items():
        assert _lost(result, went["results"][key], unknown=ownership) == {}
    for key, message in WRITTEN_BY_ITS_CODE["notifications"].items():
        assert _lost(message, went["notifications"][key], unknown=frozenset()) == {}
    for key, log in WRITTEN_BY_ITS_CODE["events"].items():
        for event, told in zip(log, went["events"][key][: len(log)], strict=True):
            assert _lost(event, told, unknown=frozenset()) == {}


def test_a_job_keeps_who_wanted_it_and_for_how_long(bed: StoreUnderTest, tmp_path: Path) -> None:
    """`owner_user_id` is `requested_by_user_id`, and the input's `timeout_seconds` is the job's, text or number."""
    brought(bed, tmp_path, WRITTEN_BY_ITS_CODE)
    rows = bed.query("SELECT status, requested_by_user_id, timeout_seconds FROM jobs")
    assert {status: (user, seconds) for status, user, seconds in rows} == {
        "completed": ("user-7", 30.0),
        "failed": (None, 45.0),
        "canceled": ("17", 30.0),
        "partial": ("user-7", 30.0),
        "running": ("user-7", 30.0),
        "queued": ("user-7", 1800.0),
    }
    jobs = exported(bed)["jobs"].values()
    assert {(one["status"], one.get("owner_user_id")) for one in jobs} >= {("completed", "user-7"), ("failed", None)}
    assert all("timeout_seconds" not in one["request_payload_json"] for one in jobs)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"timeout_seconds": 60, "request_payload_json": {"timeout_seconds": 30}}, 60.0),
        ({"request_payload_json": {"input": {"query": "Chur"}, "timeout_seconds": 30}}, 30.0),
        ({"request_payload_json": {"input": {"query": "Chur", "timeout_seconds": 12.5}}}, 12.5),
        ({"request_payload_json": {"timeout_seconds": "soon"}}, 1800.0),
        ({"request_payload_json": {"timeout_seconds": -1}}, 1800.0),
        ({"request_payload_json": {"timeout_seconds": [30]}}, 1800.0),
    ],
)
def test_a_limit_that_says_nothing_is_the_usual_one(tmp_path: Path, given: Document, seconds: float) -> None:
    """What a job says of itself goes before its request, and what cannot be a limit is none."""
    with store_under_test("sqlite", tmp_path) as bed:
        brought(bed, tmp_path, earlier_store(**given))
        [[limit, payload]] = bed.query("SELECT timeout_seconds, payload FROM jobs JOIN job_inputs USING (job_id)")
    assert limit == seconds
    assert "timeout" not in payload


@pytest.mark.parametrize(
    ("given", "number"),
    [("v1", 1), ("1", 1), ("draft", 0), ("v12345678901", 123456789), (3, 3), (0, 0), (None, 1)],
)
def test_a_schema_is_a_name_or_a_number(tmp_path: Path, given: str | int | None, number: int) -> None:
    """Inside it is a number; the export has what came, and what came without one has the usual number."""
    document = earlier_store(status="completed", result_id="r", finished_at=NOON)
    document["results"]["r"] = {
        "job_id": "j1",
        "result_kind": "final",
        "result_seq": 1,
        "schema_version": given,
        "result_payload": {},
    }
    with store_under_test("sqlite", tmp_path) as bed:
        brought(bed, tmp_path, document)
        assert bed.query("SELECT schema_version FROM job_results") == [(number,)]
        assert exported(bed)["results"]["r"]["schema_version"] == (1 if given is None else given)


def test_what_retention_removed_is_no_result_of_an_export(bed: StoreUnderTest, tmp_path: Path) -> None:
    """The earlier system counts every entry of `results`; the job still says that its result expired."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(8 * DAY)
        await make.completed(0)
        policy = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=3 * DAY, jobs=90 * DAY)
        await store.retire(policy, dry_run=False)

    bed.play(scene)
    assert bed.query("SELECT count(*) FROM job_results WHERE removed_at IS NOT NULL") == [(2,)]
    document = exported(bed)
    [kept] = document["results"].values()
    assert "removed_at" not in kept
    assert [one["result_id"] in document["results"] for one in document["jobs"].values()].count(False) == 1
    folder = tmp_path / "copy"
    folder.mkdir()
    with store_under_test("sqlite", folder) as copy:
        brought(copy, folder, document)
        assert exported(copy) == document


def test_jobs_with_ids_of_any_form_are_walked_with_all_that_is_theirs(bed: StoreUnderTest) -> None:
    """A check finds each job's log, and an export its chunks, whatever order a store's own keys have."""
    names = [f"job-{number}" for number in range(9)]

    async def scene(store: Store, _: JobFactory, clock: SetClock) -> None:
        for job_id in (*names, None):
            made = await started(store, clock, job_id=job_id)
            assert await store.record(made.lease, Checkpoint(key=made.lease.job_id, payload="1"))

    clock = SetClock()
    bed.play(scene, clock)
    # These inputs are hashed in a way of their own.
    assert [one for one in bed.check(clock) if one.rule != "payload_hash"] == []
    jobs = exported(bed)["jobs"]
    assert jobs.keys() > set(names)
    assert {job_id: list(job["chunks"]) for job_id, job in jobs.items()} == {job_id: [job_id] for job_id in jobs}
