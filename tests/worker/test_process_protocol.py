"""Messages between a program and its worker process, however their bytes arrive."""

import asyncio
import mmap
import struct

import msgspec
import pytest

from langlauf.analysis.payload import LARGE_TEXT
from langlauf.worker.process_protocol import FromWorker, MessageConnection, WorkerStopped, WorkerUnable


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


def test_a_large_frame_is_not_cleared_before_it_comes() -> None:
    """Its place is pages that are there once they are written to: nothing of 64 MiB happens at once."""
    connection: MessageConnection[FromWorker] = MessageConnection(lambda _: None, lambda: None, FromWorker)
    connection.data_received(struct.pack("!Q", 2 * LARGE_TEXT) + b"x" * 10)
    assert isinstance(connection._large, mmap.mmap)
    assert connection._missing == 2 * LARGE_TEXT - 10
