"""What a process sends may be as large as a result: the event loop of its worker is not held up by it."""

import asyncio
import socket
import threading
from typing import Any

import msgspec
import pytest

from langlauf.analysis.payload import LARGE_TEXT
from langlauf.worker.parallel_map import chunk_value
from langlauf.worker.processes import child_protocol


class Watched:
    """Decodes frames, and remembers in which threads."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self._decoder = msgspec.json.Decoder(child_protocol.FromChild)

    def decode(self, data: bytes) -> Any:
        """The message."""
        self.threads.append(threading.get_ident())
        return self._decoder.decode(data)


@pytest.mark.parametrize("large", [False, True])
def test_a_large_frame_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """And comes as it was sent; a small one does not wait for a thread."""
    watched = Watched()
    monkeypatch.setattr(child_protocol, "_from_child", watched)
    payload = msgspec.Raw(b'"%s"' % (b"x" * (LARGE_TEXT if large else 10)))
    sent = child_protocol.FunctionReturned(
        payload=payload, summary=child_protocol.raw_json(None), views=child_protocol.raw_json(None)
    )

    async def body() -> None:
        ours, theirs = socket.socketpair()
        sending = threading.Thread(target=child_protocol.ChildConnection(theirs).send, args=(sent,))
        sending.start()
        line = child_protocol.ChildStream(*await asyncio.open_connection(sock=ours))
        heard = await line.receive()
        sending.join()
        assert isinstance(heard, child_protocol.FunctionReturned)
        assert (await chunk_value(heard)).payload == bytes(payload).decode()
        line.close()
        theirs.close()

    asyncio.run(body())
    assert (watched.threads[0] != threading.get_ident()) is large
