"""Reuse of results: a job that is completed at birth, and every condition without which there is none."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import asyncpg
import pytest
from msgspec.structs import replace

from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, ClaimRequest, Lease, Partial
from langlauf.domain.errors import StoreError
from langlauf.domain.job import Accepted, Duplicate, JobRecord, QueueFull, Replayed, ReuseRule
from langlauf.domain.outcome import Completed, Failed, Released
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.result import RetentionPolicy
from langlauf.domain.state import Status
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.store_contract.conftest import STORES, Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, claim, event_types, new_job, read_job

_DAY = 86_400.0


def _code(version: str = "1", host: str = "a", analysis: str = "survey") -> CodeVersion:
    return CodeVersion(
        analysis=analysis, version=version, code_hash="0" * 64, package=None, langlauf="0.1", python="3.12", host=host
    )


async def _run(store: Store, clock: SetClock, code: CodeVersion | None = None, **rules: Any) -> JobRecord:
    """A completed run whose result may be reused."""
    code = code or _code(analysis=rules.get("analysis", "survey"))
    await store.workers.save_codes([code])
    made = await store.submit(new_job(clock, **{"query": "Bern", "reusable": True, **rules}))
    assert isinstance(made, Accepted), made
    [begun] = await _claimed(store, code)
    assert await store.record(begun.lease, Completed(result_id=_result_id(begun.lease), payload='{"n":1}'))
    clock.pass_(1)
    return (await read_job(store, begun.lease.job_id, begun.lease.org_id)).job


async def _claimed(store: Store, code: CodeVersion) -> list[Any]:
    request = ClaimRequest(
        worker_id="w",
        slots=1,
        analyses=(code.analysis,),
        lease_seconds=LEASE_SECONDS,
        max_running=100,
        codes={code.analysis: code.key},
    )
    return await store.claim(request)


def _result_id(lease: Lease) -> str:
    return lease.job_id[:-1] + ("0" if lease.job_id[-1] != "0" else "1")


async def _again(store: Store, clock: SetClock, **rules: Any) -> JobRecord:
    asked = {"query": "Bern", "reusable": True, "reuse": ReuseRule("1", _DAY), **rules}
    made = await store.submit(new_job(clock, **asked))
    assert isinstance(made, Accepted), made
    clock.pass_(0.001)
    return made.job


def test_a_result_is_reused_at_once(shared: Harness) -> None:
    """A job of its own, completed at birth with every event; it takes no slot and no turn, and nothing runs."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await _run(store, clock)
        job = await _again(store, clock)
        assert (job.status, job.reused_from, job.attempt, job.progress_percent) == (
            Status.COMPLETED,
            first.job_id,
            1,
            100,
        )
        stored = (await read_job(store, job.job_id)).job
        for field in ("status", "result_id", "reused_from", "finished_at", "queued_at", "event_seq", "attempt"):
            assert getattr(stored, field) == getattr(job, field), field
        assert stored.code == first.code
        assert await event_types(store, job.job_id) == ["job.queued", "job.running", "job.completed"]
        assert job.result_id is not None
        assert job.result_id != first.result_id
        found = await store.tenant(ORG).result(job.result_id, latest=False)
        assert found is not None
        assert found.delivered.payload == '{"n":1}'
        assert await claim(store, 10) == []
        depth = await store.depth()
        assert (depth.waiting, depth.running) == (0, 0)
        assert (await store.paces())["survey"] >= 0

    shared.run(body)


async def _other_version(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock)
    return await _again(store, clock, reuse=ReuseRule("2", _DAY))


async def _other_org(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock, org="org-b")
    return await _again(store, clock)


async def _other_input(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock)
    return await _again(store, clock, query="Basel")


async def _other_analysis(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock, analysis="census")
    return await _again(store, clock)


async def _too_old(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock)
    clock.pass_(10)
    return await _again(store, clock, reuse=ReuseRule("1", 10))


async def _forced(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock)
    return await _again(store, clock, reuse=None)


async def _not_offered(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock, reusable=False)
    return await _again(store, clock)


async def _failed(store: Store, clock: SetClock) -> JobRecord:
    await store.workers.save_codes([_code()])
    await store.submit(new_job(clock, query="Bern", reusable=True))
    [begun] = await _claimed(store, _code())
    failed = Failed(code="internal", message="no", retryable=False)
    assert await store.record(begun.lease, failed)
    return await _again(store, clock)


async def _expired(store: Store, clock: SetClock) -> JobRecord:
    await _run(store, clock)
    clock.pass_(3_600)
    policy = RetentionPolicy(final_results=60, partial_results=60, events=60, jobs=30 * _DAY)
    await store.retire(policy, dry_run=False)
    return await _again(store, clock)


async def _mixed_code(store: Store, clock: SetClock) -> JobRecord:
    """Its first attempt, whose checkpoints count, was of other code."""
    await store.workers.save_codes([_code("0"), _code("1")])
    await store.submit(new_job(clock, query="Bern", reusable=True))
    [begun] = await _claimed(store, _code("0"))
    assert await store.record(begun.lease, Released())
    clock.pass_(0.01)
    [again] = await _claimed(store, _code("1"))
    assert await store.record(again.lease, Completed(result_id=_result_id(again.lease), payload="{}"))
    clock.pass_(1)
    return await _again(store, clock)


async def _same_beginning(store: Store, clock: SetClock) -> JobRecord:
    """Of another input whose hash begins alike: the index knows no more of it."""
    ran = await _run(store, clock)
    other = new_job(clock, query="Basel", reuse=ReuseRule("1", _DAY))
    forged = replace(other.job, request_payload_hash=ran.request_payload_hash[:16] + "0" * 48)
    made = await store.submit(replace(other, job=forged))
    assert isinstance(made, Accepted), made
    return made.job


async def _in_a_blob(store: Store, clock: SetClock) -> JobRecord:
    with TemporaryDirectory() as folder:
        store.blobs.use(FileBlobs(Path(folder)), largest_inline=0, seconds=10)
        await _run(store, clock)
        return await _again(store, clock)


Scene = Callable[[Store, SetClock], Awaitable[JobRecord]]
SCENES: tuple[Scene, ...] = (
    *(_other_version, _other_org, _other_input, _other_analysis, _too_old, _forced, _not_offered, _failed, _expired),
    _mixed_code,
    _same_beginning,
    _in_a_blob,
)


@pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__.strip("_") for scene in SCENES])
def test_what_is_not_the_same_is_never_reused(harness: Harness, scene: Scene) -> None:
    """It is queued and runs, as without reuse."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await scene(store, clock)
        assert (job.status, job.reused_from) == (Status.QUEUED, None)
        assert [made.lease.job_id for made in await claim(store, 1, analyses=(job.analysis,))] == [job.job_id]

    harness.run(body)


async def _copied(store: Store, clock: SetClock) -> JobRecord:
    """What is reused is the final result and the trail of that run, and of nothing else."""
    await store.workers.save_codes([_code()])
    payloads: dict[str, str] = {}
    for query in ("Biel", "Bern", "Brig"):
        await store.submit(new_job(clock, query=query, reusable=True))
        [begun] = await _claimed(store, _code())
        for key in ("a", "langlauf:source:" + query, "z"):
            assert await store.record(begun.lease, Checkpoint(key=key, payload="1"))
        assert await store.record(begun.lease, Partial(result_id=new_id(), payload='"part"'))
        payloads[query] = f'"{query}"'
        assert await store.record(begun.lease, Completed(result_id=new_id(), payload=payloads[query]))
        clock.pass_(1)
    job = await _again(store, clock)
    reads = store.tenant(ORG)
    found = await reads.result(str(job.result_id), latest=False)
    assert found is not None
    assert found.delivered.payload == payloads["Bern"]
    assert len(await reads.results(job.job_id)) == 1
    assert {entry.key for entry in await reads.trail(job.job_id)} == {"langlauf:source:Bern", "langlauf:attempt:1"}
    assert (await reads.kept_parts(job.job_id, most=10)).count == 0
    assert job.reused_from is not None
    return replace(job, reused_from=None)


def test_a_reused_result_brings_exactly_what_belongs_to_it(shared: Harness) -> None:
    """The final result, its sources and its attempts."""

    async def body(store: Store, clock: SetClock) -> None:
        await _copied(store, clock)

    shared.run(body)


Lack = str | tuple[str, str]


class Mutant(NamedTuple):
    """A weaker look-up or copy: what its text lacks on each store, and the scene that shows it."""

    name: str
    scene: Scene
    #: statements or functions, each with the texts that it lacks, or that another stands for
    sqlite: dict[str, tuple[Lack, ...]]
    postgres: dict[str, tuple[Lack, ...]]


_INDEX = "INDEXED BY idx_jobs_reusable"
_PAYLOAD = "AND final.payload IS NOT NULL"


def _lookup(name: str, scene: Scene, sqlite: str, postgres: str, *company: Lack) -> Mutant:
    """Without one condition of the look-up; `company` are others that stand before the same mistake."""
    beside = tuple(text for text in company if text != _INDEX)
    return Mutant(name, scene, {"find_reusable": (sqlite, *company)}, {"find_reusable": (postgres, *beside)})


_EXISTS = "EXISTS (SELECT 1 FROM result_rows AS final"
MUTANTS = (
    _lookup("age", _too_old, "AND origin.finished_at >= :since", "AND origin.finished_at >= now - wish.reuse_age"),
    _lookup("org", _other_org, "AND origin.org = :org", "AND origin.org_id = wish.org_id"),
    _lookup("analysis", _other_analysis, "AND origin.analysis = :analysis", "AND origin.analysis = wish.analysis"),
    _lookup("version", _other_version, "AND codes.version = :version", "AND codes.version = wish.reuse_version"),
    _lookup(
        "input",
        _same_beginning,
        "AND origin.payload_hash = :hash",
        "AND origin.payload_hash = wish.payload_hash",
    ),
    *(
        _lookup(f"offered: {scene.__name__}", scene, "AND origin.reusable = 1", "AND origin.reusable = 1", _INDEX)
        for scene in (_not_offered, _mixed_code)
    ),
    _lookup(
        "completion",
        _failed,
        "AND origin.status = 'completed'",
        "AND origin.final_state = 1",
        _INDEX,
        (_EXISTS, f"NOT {_EXISTS}"),
    ),
    _lookup("payload", _in_a_blob, _PAYLOAD, _PAYLOAD),
    _lookup(
        "expiry", _expired, "AND origin.result_expired_at IS NULL", "AND origin.result_expired_at IS NULL", _PAYLOAD
    ),
    Mutant(
        "whose result",
        _copied,
        {"copy_final": ("job = :origin AND",)},
        {"complete_reused": (("job = origins[place] AND result_kind", "result_kind"),)},
    ),
    Mutant(
        "which result",
        _copied,
        {"copy_final": ("AND result_kind = 'final'",)},
        {"complete_reused": ("AND result_kind = 'final'",)},
    ),
    Mutant(
        "whose trail",
        _copied,
        {"copy_trail": ("job = :origin AND",)},
        {"complete_reused": ("AND job_id = origin.job_id",)},
    ),
    Mutant(
        "no chunks before the trail",
        _copied,
        {"copy_trail": ("AND chunk_key >= 'langlauf:'",)},
        {"complete_reused": ("AND chunk_key >= 'langlauf:'",)},
    ),
    Mutant(
        "no chunks behind the trail",
        _copied,
        {"copy_trail": ("AND chunk_key < 'langlauf;'",)},
        {"complete_reused": ("AND chunk_key < 'langlauf;'",)},
    ),
)


def _weaker(text: str, lacks: tuple[Lack, ...]) -> str:
    for lack in lacks:
        part, other = (lack, "") if isinstance(lack, str) else lack
        assert text.count(part) == 1, f"must have exactly one {part}"
        text = text.replace(part, other)
    return text


@asynccontextmanager
async def _altered(store: Store, mutant: Mutant) -> AsyncIterator[None]:
    """While this lasts, the store looks for less."""
    if isinstance(store, SqliteStore):
        for name, lacks in mutant.sqlite.items():
            store._queries[name] = _weaker(store._queries[name], lacks)
        yield
        return
    assert isinstance(store, PostgresStore)
    connection = await asyncpg.connect(store._url)
    try:
        for name, lacks in mutant.postgres.items():
            text = await connection.fetchval("SELECT pg_get_functiondef(to_regproc($1))", f"langlauf.{name}")
            await connection.execute(_weaker(text, lacks))
            try:
                yield
            finally:
                await connection.execute(text)
    finally:
        await connection.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_store_without_this_condition_is_found_out(shared: Harness, mutant: Mutant) -> None:
    """Its scene then reuses what it may not, or fails."""

    async def body(store: Store, clock: SetClock) -> None:
        async with _altered(store, mutant):
            try:
                wrong = (await mutant.scene(store, clock)).reused_from is not None
            except (AssertionError, StoreError):
                wrong = True
        assert wrong, mutant.name

    shared.run(body)


def test_a_reused_result_is_not_reused_from_again(shared: Harness) -> None:
    """The age counts from the run: a chain of jobs does not keep an old result alive."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await _run(store, clock)
        clock.pass_(50)
        second = await _again(store, clock, reuse=ReuseRule("1", 60))
        assert second.reused_from == first.job_id
        clock.pass_(5)
        assert (await _again(store, clock, reuse=ReuseRule("1", 60))).reused_from == first.job_id
        clock.pass_(10)
        assert (await _again(store, clock, reuse=ReuseRule("1", 60))).reused_from is None

    shared.run(body)


def test_a_key_comes_first_and_a_full_queue_does_not_matter(shared: Harness) -> None:
    """A key gives its own job again; what takes no place in a queue is not refused for want of one."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await _run(store, clock)
        full: dict[str, Any] = {"max_waiting_org": 1, "max_waiting_all": 1}
        assert isinstance(await store.submit(new_job(clock, query="x", **full)), Accepted)
        assert isinstance(await store.submit(new_job(clock, query="y", **full)), QueueFull)
        job = await _again(store, clock, idempotency_key="k", **full)
        assert job.reused_from == first.job_id
        rules: dict[str, Any] = {"query": "Bern", "idempotency_key": "k", "reuse": ReuseRule("1", _DAY)}
        replayed = await store.submit(new_job(clock, **rules))
        assert isinstance(replayed, Replayed)
        assert (replayed.job.job_id, replayed.job.reused_from) == (job.job_id, first.job_id)

    shared.run(body)


def test_a_run_under_way_does_not_hide_a_result(shared: Harness) -> None:
    """A forced run of the same input is a duplicate for others, but not for a request that a result answers."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await _run(store, clock)
        await _again(store, clock, reuse=None)
        assert isinstance(await store.submit(new_job(clock, query="Bern")), Duplicate)
        assert (await _again(store, clock)).reused_from == first.job_id

    shared.run(body)


def test_a_result_in_a_blob_is_not_reused(tmp_path: Path) -> None:
    """A blob belongs to its job alone: another job cannot point to it."""

    async def body(store: Store, clock: SetClock) -> None:
        await _run(store, clock)
        assert (await _again(store, clock)).reused_from is None

    Harness(STORES["blobs"], tmp_path).run(body)
