"""The store of a worker process, whose calls are executed in the program that started it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from langlauf.analysis.payload import LARGE_TEXT
from langlauf.clock import new_id
from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest, Lease, Progress, Write, WriteResult
from langlauf.domain.errors import StoreError
from langlauf.domain.health import WorkerReport
from langlauf.domain.outcome import Completed
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.worker.process_protocol import FromWorker, MessageConnection, ToWorker
from langlauf.worker.remote_store import RemoteStore
from langlauf.worker.store_server import StoreServer
from tests.support.stores import LEASE_SECONDS, START, SetClock
from tests.support.submissions import ORG, accept, read_job, started

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


class _Jobs:
    """The jobs that a worker gets; it counts no slots, as the program does."""

    def __init__(self, remote: RemoteStore) -> None:
        self._came: asyncio.Queue[Claim] = asyncio.Queue()
        self.source = remote.source(_REQUEST, lambda: 0, self._take)

    def _take(self, handed: ClaimBatch) -> None:
        for claim in handed.claims:
            self._came.put_nowait(claim)

    async def next(self, count: int = 1) -> list[str]:
        """Return the ids of the next jobs."""
        return [(await self._came.get()).lease.job_id for _ in range(count)]

    @property
    def none(self) -> bool:
        """Whether it has got no other job."""
        return self._came.empty()


async def _started(remote: RemoteStore) -> _Jobs:
    jobs = _Jobs(remote)
    await jobs.source.start()
    return jobs


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


def test_jobs_are_claimed_as_long_as_slots_are_free(tmp_path: Path) -> None:
    """A worker never asks; an end that is written frees a slot."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        jobs = await _started(remote)
        accepted = [(await accept(store, clock)).job_id for _ in range(5)]
        assert await jobs.next(3) == accepted[:3]
        assert len(server.held) == 3
        running = next(iter(server.held))
        assert await remote.record(running, Progress(percent=10))
        assert await remote.record(running, Completed(result_id=new_id(), payload="1"))
        assert await jobs.next() == accepted[3:4]
        assert jobs.none
        assert (await read_job(store, accepted[4])).job.status is Status.QUEUED

    _run(tmp_path, body)


def test_an_attempt_that_lost_its_lease_frees_its_slot(tmp_path: Path) -> None:
    """Nothing is written of it, as when the store was away for longer than its lease."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        jobs = await _started(remote)
        accepted = [(await accept(store, clock)).job_id for _ in range(4)]
        assert await jobs.next(3) == accepted[:3]
        lost = next(iter(server.held))
        jobs.source.ended(lost, written=True)
        jobs.source.ended(lost, written=False)
        assert await jobs.next() == accepted[3:]
        assert lost not in server.held

    _run(tmp_path, body)


def test_a_worker_that_does_not_read_gets_two_messages(tmp_path: Path) -> None:
    """Its event loop may be blocked: further jobs wait, although it has free slots, until it reads."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        jobs = await _started(remote)
        assert remote.connection is not None
        transport = remote.connection._transport
        assert transport is not None
        transport.pause_reading()
        accepted = [(await accept(store, clock)).job_id for _ in range(3)]
        assert [one.lease.job_id for one in server.held.values()] == accepted[:2]
        assert (await read_job(store, accepted[2])).job.status is Status.QUEUED
        transport.resume_reading()
        assert await jobs.next(3) == accepted

    _run(tmp_path, body)


@pytest.mark.parametrize("told", [True, False], ids=["by the program", "by a signal of its own"])
def test_nothing_is_claimed_for_a_worker_that_drains(tmp_path: Path, told: bool) -> None:
    """What comes later waits for another worker, whether or not the worker has stopped to claim."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        jobs = await _started(remote)
        early = await accept(store, clock)
        assert await jobs.next() == [early.job_id]
        if told:
            server.drain()
        else:
            await remote.save_report(_STOPPING)
        late = await accept(store, clock)
        await jobs.source.stop()
        assert jobs.none
        assert (await read_job(store, late.job_id)).job.status is Status.QUEUED

    _run(tmp_path, body)


def test_what_is_being_claimed_while_a_worker_stops_comes_before_the_answer(tmp_path: Path) -> None:
    """It knows then of all that it holds, and can release it."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        jobs = await _started(remote)
        submitted = asyncio.create_task(accept(store, clock))
        while store._writes.idle:  # noqa: ASYNC110 - a queue tells nobody that it has something
            await asyncio.sleep(0)
        await jobs.source.stop()
        job = await submitted
        assert len(server.held) == (not jobs.none)
        assert (await read_job(store, job.job_id)).job.attempt == len(server.held)

    _run(tmp_path, body)


def test_what_is_claimed_for_a_worker_that_is_gone_is_released(tmp_path: Path) -> None:
    """It never heard of it, so that no attempt is lost."""

    async def body(store: SqliteStore, clock: SetClock, server: StoreServer, remote: RemoteStore) -> None:
        await _started(remote)
        accepted = asyncio.create_task(accept(store, clock))
        await asyncio.sleep(0)
        await server.close()
        job = (await read_job(store, (await accepted).job_id)).job
        assert not server.held
        assert (job.retry_count, job.error_count) == (0, 0)
        assert (await read_job(store, job.job_id)).lease_expires_at is None

    _run(tmp_path, body)
