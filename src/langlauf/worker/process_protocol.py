"""What a program and its worker process say to each other: MessagePack in frames, each with its length before it.

Never pickle. What is said in one turn of the event loop goes out in one write.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.telemetry.metrics import Counts

_LENGTH = struct.Struct("!Q")
Message = TypeVar("Message")


class StartWorker(msgspec.Struct, frozen=True, tag=True):
    """To a new worker: the application to load, the settings it needs, and what the store's clock shows."""

    target: str
    settings: dict[str, Any]
    #: the store's time minus the time since the machine started, in microseconds
    clock_shift: int


class StoreReply(msgspec.Struct, frozen=True, tag=True):
    """To a worker: what the store said to a question."""

    number: int
    value: msgspec.Raw


class StoreErrorReply(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the error that a question met with, by the name of its class."""

    number: int
    error: str
    message: str


class CancelHint(msgspec.Struct, frozen=True, tag=True):
    """To a worker: one of its jobs may be wished to stop."""


class RequestMetrics(msgspec.Struct, frozen=True, tag=True):
    """To a worker: tell what was counted."""


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To a worker: claim nothing more, let attempts finish within the grace, then leave."""


class EndGrace(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the grace is over; give back what still runs."""


class WorkerReady(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it claims."""


class WorkerUnable(msgspec.Struct, frozen=True, tag=True):
    """From a worker: why it cannot work."""

    problem: str


class StoreCall(msgspec.Struct, frozen=True, tag=True):
    """From a worker: something that the store is to do or to read."""

    number: int
    verb: str
    arguments: msgspec.Raw


class WithdrawClaim(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the claim that stands shall stand no longer; it is answered with what it has."""


class MetricsReport(msgspec.Struct, frozen=True, tag=True):
    """From a worker: what was counted since it last told."""

    counts: Counts


class WorkerStopped(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it has stopped, and could not give back so many attempts."""

    kept: int


ToWorker = StartWorker | StoreReply | StoreErrorReply | CancelHint | RequestMetrics | Drain | EndGrace
FromWorker = WorkerReady | WorkerUnable | StoreCall | WithdrawClaim | MetricsReport | WorkerStopped

_encoder = msgspec.msgpack.Encoder()


class MessageConnection(asyncio.Protocol, Generic[Message]):
    """One end of the line. `heard` is called with each message, `lost` once when the other end is gone."""

    def __init__(self, heard: Callable[[Message], None], lost: Callable[[], None], messages: Any) -> None:
        self._heard = heard
        self._lost = lost
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(messages)
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()
        self._outgoing: list[bytes] = []
        self._decoding: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The line is open."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        """The other end is gone."""
        self._transport = None
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Takes what has come apart into messages; a large one is decoded aside and may be overtaken."""
        rest = self._rest
        rest += data
        start = 0
        while len(rest) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, start)
            begin, end = start + _LENGTH.size, start + _LENGTH.size + length
            if len(rest) < end:
                break
            self._take(bytes(rest[begin:end]))
            start = end
        del rest[:start]

    def _take(self, frame: bytes) -> None:
        if len(frame) <= LARGE_TEXT:
            self._heard(self._decoder.decode(frame))
            return
        task = asyncio.create_task(self._decode_large(frame))
        self._decoding.add(task)
        task.add_done_callback(self._decoding.discard)

    async def _decode_large(self, frame: bytes) -> None:
        self._heard(await run_in_thread(self._decoder.decode, frame))

    def tell(self, message: msgspec.Struct) -> None:
        """Sends a message at the end of this turn; one that is gone is told nothing."""
        frame = _encoder.encode(message)
        if self._transport is None:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += (_LENGTH.pack(len(frame)), frame)

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def close(self) -> None:
        """Hangs up once everything that was told is sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
