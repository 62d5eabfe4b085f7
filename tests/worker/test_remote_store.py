"""The store of a worker process, whose calls are executed in the program that started it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from langlauf.analysis.payload import LARGE_TEXT
from langlauf.clock import new_id
from langlauf.domain.attempt import ClaimBatch, ClaimRequest, Lease, Progress, Write, WriteResult
from langlauf.domain.errors import StoreError
from langlauf.domain.health import WorkerReport
from langlauf.domain.outcome import Completed
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.worker.process_protocol import FromWorker, MessageConnection, ToWorker
from langlauf.worker.remote_store import RemoteStore, StoreServer
from tests.support.stores import LEASE_SECONDS, START, SetClock
from tests.support.submissions import ORG, accept, new_job, read_job, started

_REQUEST = ClaimRequest(worker_id="w", slots=3, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=9)

_STOPPING = WorkerReport(
    worker_id="w",
    host="h",
    pid=1,
    version="0",
    analyses=("survey",),
    slots=3,
    busy=1,
    every_seconds=5.0,
    started_at=START,
    stopping=True,
)


@asynccontextmanager
async def _connected(store: Store, clock: SetClock, hints: Hints) -> AsyncIterator[tuple[StoreServer, RemoteStore]]:
    """Both ends of one connection; the program's comes first."""
    server, remote = StoreServer(store, hints, poll_seconds=60), RemoteStore(clock)
    above: MessageConnection[FromWorker] = MessageConnection(server.receive, lambda: None, FromWorker)  # type: ignore[arg-type]  # calls alone
    below: MessageConnection[ToWorker] = MessageConnection(remote.receive, lambda: None, ToWorker)  # type: ignore[arg-type]  # replies alone
    for connection, end in zip((above, below), socket.socketpair(), strict=True):
        await asyncio.get_running_loop().create_connection(lambda one=connection: one, sock=end)  # type: ignore[misc]  # bound on purpose
    server.connection, remote.connection = above, below
    try:
        yield server, remote
    finally:
        above.close()
        below.close()
        await server.close()


def _run(path: Path, body: Callable[[SqliteStore, SetClock, StoreServer, RemoteStore], Awaitable[None]]) -> None:
    async def main() -> None:
        clock, hints = SetClock(), Hints()
        store = await SqliteStore.open(str(path / "store.db"), clock=clock, hints=hints)
        try:
            async with _connected(store, clock, hints) as (server, remote), asyncio.timeout(60):
                await body(store, clock, server, remote)
        finally:
            await store.close()

    asyncio.run(main())


def _asked(remote: RemoteStore) -> "asyncio.Task[ClaimBatch]":
    return asyncio.create_task(remote.claim_next(_REQUEST, asyncio.Event().wait))  # type: ignore[arg-type]  # never returns


async def _handed(store: Store, clock: SetClock, remote: RemoteStore) -> None:
    """A worker asks for three jobs and gets one, so that two slots are left."""
    asked = _asked(remote)
    job = await accept(store, clock)
    assert [one.lease.job_id for one in (await asked).claims] == [job.job_id]


async def _until(store: SqliteStore, job_id: str, *, held: bool) -> None:
    """Return once a job is under a lease, or is not."""
    changed = asyncio.Event()
    store._hints.follow(job_id, changed)
    while ((await read_job(store, job_id)).lease_expires_at is not None) is not held:
        await changed.wait()
        changed.clear()


def test_a_large_payload_comes_to_the_store_as_bytes(tmp_path: Path) -> None:
    """No text is made of it on its way, which would hold up all requests; a small one is a text."""
    written: list[Completed] = []

    class NotingStore(SqliteStore):
        def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
            assert isinstance(write, Completed)
            written.append(write)
            return super().record(lease, write)

        def record_all(self, writes: Sequence[tuple[Lease, Write]]) -> Awaitable[list[WriteResult | Exception]]:
            written.extend(write for _, write in writes if isinstance(write, Completed))
            return super().record_all(writes)

    async def body() -> None:
        clock = SetClock()
        store = await NotingStore.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
        texts = ['"small"', '"' + "ü" * LARGE_TEXT + '"']
        try:
            async with _connected(store, clock, Hints()) as (_, remote):
                for name, text in zip(("r-1", "r-2"), texts, strict=True):
                    made = await started(store, clock)
                    assert await remote.record(made.lease, Completed(result_id=name, payload=text))
                    found = await store.tenant(ORG).result(name, latest=False)
                    assert found is not None
                    assert found.delivered.payload == text
        finally:
            await store.close()
        assert [(write.payload, type(write.payload_data)) for write in written] == [
            (texts[0], type(None)),
            (None, memoryview),
        ]

    asyncio.run(body())


def test_writes_of_one_moment_are_one_call_and_each_has_its_own_answer(tmp_path: Path) -> None:
    """One without its lease, or that the store cannot take, fails alone; those of an attempt keep their order."""
    calls: list[int] = []

    class CountingStore(SqliteStore):
        def record_all(self, writes: Sequence[tuple[Lease, Write]]) -> Awaitable[list[WriteResult | Exception]]:
            calls.append(len(writes))
            return super().record_all(writes)

    async def body() -> None:
        clock = SetClock()
        store = await CountingStore.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
        try:
            first, second, third = [(await started(store, clock)).lease for _ in range(3)]
            lost = Lease(ORG, first.job_id, 9)
            writes: list[tuple[Lease, Write]] = [
                (lost, Completed(result_id=new_id(), payload="1")),
                (first, Progress(percent=10)),
                (first, Completed(result_id="r-1", payload="1")),
                (second, Completed(result_id="r-1", payload="1")),  # an id that is taken
                (third, Completed(result_id="r-3", payload="1")),
            ]
            async with _connected(store, clock, Hints()) as (server, remote):
                answers = await asyncio.gather(
                    *(remote.record(lease, write) for lease, write in writes), return_exceptions=True
                )
                assert calls == [len(writes)]
                assert answers[:3] == [WriteResult.REFUSED, WriteResult.WRITTEN, WriteResult.WRITTEN]
                assert isinstance(answers[3], StoreError)
                assert answers[4] == WriteResult.WRITTEN
                await server.close()
            ended = [(await read_job(store, lease.job_id)).job.status for lease in (first, second, third)]
            assert ended == [Status.COMPLETED, Status.RUNNING, Status.COMPLETED]
        finally:
            await store.close()

    asyncio.run(body())


def test_what_comes_before_a_worker_asks_again_is_claimed_for_it(tmp_path: Path) -> None:
    """For the slots that the last claim left, and no more; the worker gets it when it asks."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        await _handed(store, clock, remote)
        early = await accept(store, clock)
        await _until(store, early.job_id, held=True)
        assert [lease.job_id for lease in server.held] != [early.job_id]
        assert [one.lease.job_id for one in (await _asked(remote)).claims] == [early.job_id]
        late = await accept(store, clock)
        assert [one.lease.job_id for one in (await _asked(remote)).claims] == [late.job_id]
        assert len(server.held) == 3

    _run(tmp_path, body)


def test_a_slot_that_an_end_frees_is_claimed_for_by_the_claim_that_waits(tmp_path: Path) -> None:
    """It was asked for two slots; with the one of an attempt that ended meanwhile it gets three jobs."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        await _handed(store, clock, remote)
        [running] = server.held
        assert await remote.record(running, Completed(result_id=new_id(), payload="1"))
        jobs = await asyncio.gather(*(accept(store, clock) for _ in range(4)))
        handed = [one.lease.job_id for one in (await _asked(remote)).claims]
        assert handed == [job.job_id for job in jobs[:3]]

    _run(tmp_path, body)


@pytest.mark.parametrize("told", [True, False], ids=["by the program", "by a signal of its own"])
def test_a_worker_that_drains_claims_nothing_ahead(tmp_path: Path, told: bool) -> None:
    """What was claimed for it is released at once, and what comes later waits for another worker."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        await _handed(store, clock, remote)
        early = await accept(store, clock)
        await _until(store, early.job_id, held=True)
        if told:
            server.drain()
        else:
            await remote.save_report(_STOPPING)
        await _until(store, early.job_id, held=False)
        late = await accept(store, clock)
        assert (await _asked(remote)).claims == []
        assert (await read_job(store, late.job_id)).job.status is Status.QUEUED
        released = (await read_job(store, early.job_id)).job
        assert (released.status, released.attempt, released.retry_count) == (Status.RUNNING, 1, 0)

    _run(tmp_path, body)


def test_a_claim_that_stands_gets_nothing_once_its_worker_drains(tmp_path: Path) -> None:
    """Not even with the next submission, before it has been withdrawn: it would get what has just been released."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        asked = _asked(remote)
        while not store._standing._offers:  # noqa: ASYNC110 - a claim tells nobody that it stands
            await asyncio.sleep(0)
        server.drain()
        joined = store._standing.joining([new_job(clock)])
        store._standing.answer(joined, [None] * len(joined))
        assert not joined
        assert (await asked).claims == []

    _run(tmp_path, body)
