"""Messages between a program and its worker process, however their bytes arrive."""

import asyncio
import mmap
import socket
import struct
from pathlib import Path

import msgspec
import pytest

from langlauf.analysis.payload import LARGE_TEXT
from langlauf.domain.attempt import Lease, Write, WriteResult
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.worker.process_protocol import FromWorker, MessageConnection, ToWorker, WorkerStopped, WorkerUnable
from langlauf.worker.remote_store import RemoteStore, StoreServer
from tests.support.stores import SetClock
from tests.support.submissions import ORG, started


@pytest.mark.parametrize("size", [1, 7, 8, 4_096, LARGE_TEXT + 20, 10 * LARGE_TEXT])
def test_messages_arrive_whole_in_pieces_of_any_size(size: int) -> None:
    """Small ones before and after two large ones; what follows a large one in the same piece is not lost."""
    texts = ["first", "x" * (LARGE_TEXT + 1), "y" * (2 * LARGE_TEXT), "last"]
    frames = [msgspec.msgpack.encode(WorkerUnable(text)) for text in texts] + [msgspec.msgpack.encode(WorkerStopped(3))]
    data = b"".join(struct.pack("!Q", len(frame)) + frame for frame in frames)
    if size == 1:  # a piece per byte for the small ones alone
        texts, data = ["first"], data[: 8 + len(frames[0])] + data[-8 - len(frames[-1]) :]

    async def body() -> list[FromWorker]:
        heard: list[FromWorker] = []
        complete = asyncio.Event()

        def hear(message: FromWorker) -> None:
            heard.append(message)
            if len(heard) > len(texts):
                complete.set()

        connection: MessageConnection[FromWorker] = MessageConnection(hear, lambda: None, FromWorker)
        for start in range(0, len(data), size):
            connection.data_received(data[start : start + size])
        async with asyncio.timeout(60):
            await complete.wait()
        return heard

    heard = asyncio.run(body())
    assert sorted(one.problem for one in heard if isinstance(one, WorkerUnable)) == sorted(texts)
    assert [one for one in heard if isinstance(one, WorkerStopped)] == [WorkerStopped(3)]


def test_a_large_payload_comes_to_the_store_as_bytes(tmp_path: Path) -> None:
    """No text is made of it on its way, which would hold up all requests; a small one is a text."""
    written: list[Completed] = []

    class NotingStore(SqliteStore):
        async def record(self, lease: Lease, write: Write) -> WriteResult:
            assert isinstance(write, Completed)
            written.append(write)
            return await super().record(lease, write)

    async def body() -> None:
        clock = SetClock()
        store = await NotingStore.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
        server, remote = StoreServer(store, Hints(), poll_seconds=1), RemoteStore(clock)
        above: MessageConnection[FromWorker] = MessageConnection(server.receive, lambda: None, FromWorker)  # type: ignore[arg-type]  # calls alone
        below: MessageConnection[ToWorker] = MessageConnection(remote.receive, lambda: None, ToWorker)  # type: ignore[arg-type]  # replies alone
        for connection, end in zip((above, below), socket.socketpair(), strict=True):
            await asyncio.get_running_loop().create_connection(lambda one=connection: one, sock=end)  # type: ignore[misc]  # bound on purpose
        server.connection, remote.connection = above, below
        texts = ['"small"', '"' + "ü" * LARGE_TEXT + '"']
        try:
            for name, text in zip(("r-1", "r-2"), texts, strict=True):
                made = await started(store, clock)
                assert await remote.record(made.lease, Completed(result_id=name, payload=text))
                found = await store.tenant(ORG).result(name, latest=False)
                assert found is not None
                assert found.delivered.payload == text
        finally:
            above.close()
            below.close()
            await server.close()
            await store.close()
        assert [(write.payload, type(write.payload_data)) for write in written] == [
            (texts[0], type(None)),
            (None, memoryview),
        ]

    asyncio.run(body())


def test_a_large_frame_is_not_cleared_before_it_comes() -> None:
    """Its place is pages that are there once they are written to: nothing of 64 MiB happens at once."""
    connection: MessageConnection[FromWorker] = MessageConnection(lambda _: None, lambda: None, FromWorker)
    connection.data_received(struct.pack("!Q", 2 * LARGE_TEXT) + b"x" * 10)
    assert isinstance(connection._large, mmap.mmap)
    assert connection._missing == 2 * LARGE_TEXT - 10
