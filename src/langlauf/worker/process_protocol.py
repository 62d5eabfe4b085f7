"""Messages between a program and its worker process: length-prefixed frames of MessagePack, never pickle.

Messages that are sent in one turn of the event loop go out in one write.
"""

import asyncio
import mmap
import struct
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast, get_args

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.domain.attempt import ClaimBatch, ClaimRequest, Lease, LeaseRenewal, Write, WriteResult
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.provenance import CodeVersion, TrailEntry
from langlauf.domain.read_models import JobView, PastRun, ResultView
from langlauf.telemetry.metrics import Counts

_LENGTH = struct.Struct("!Q")
Message = TypeVar("Message")


class StartWorker(msgspec.Struct, frozen=True, tag=True):
    """To a new worker: the application to load, its settings, and the clock of the store."""

    target: str
    settings: dict[str, Any]
    #: the store's time minus the time since boot, in microseconds
    clock_shift: int


class StoreReply(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the result of a call to the store."""

    number: int
    value: msgspec.Raw


class StoreErrorReply(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the error of a call to the store, by the name of its class."""

    number: int
    error: str
    message: str


class CancelHint(msgspec.Struct, frozen=True, tag=True):
    """To a worker: one of its jobs may have been canceled."""


class RequestMetrics(msgspec.Struct, frozen=True, tag=True):
    """To a worker: send a metrics report."""


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To a worker: claim no more jobs, let attempts finish within the grace, then exit."""


class EndGrace(msgspec.Struct, frozen=True, tag=True):
    """To a worker: the grace is over; release running attempts."""


class WorkerReady(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it has started to claim jobs."""


class WorkerUnable(msgspec.Struct, frozen=True, tag=True):
    """From a worker: why it cannot start."""

    problem: str


class StoreCall(msgspec.Struct, frozen=True, tag=True):
    """From a worker: a call to the store."""

    number: int
    verb: str
    arguments: msgspec.Raw


class ClaimedJobs(msgspec.Struct, frozen=True, tag=True):
    """To a worker: jobs that were claimed for it."""

    batch: ClaimBatch


class JobsTaken(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it has received the jobs of one message."""


class AttemptLost(msgspec.Struct, frozen=True, tag=True):
    """From a worker: an attempt has ended without its lease, so that nothing was written of its end."""

    lease: Lease


class MetricsReport(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the counts since its last report."""

    counts: Counts


class WorkerStopped(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it has stopped, with this many attempts that it could not release."""

    unreleased: int


ToWorker = StartWorker | StoreReply | StoreErrorReply | ClaimedJobs | CancelHint | RequestMetrics | Drain | EndGrace
FromWorker = WorkerReady | WorkerUnable | StoreCall | JobsTaken | AttemptLost | MetricsReport | WorkerStopped

encode = msgspec.msgpack.Encoder().encode

# -- calls to the store -----------------------------------------------------------------------------------------------

#: The writes of an attempt, by the name of their class.
WRITE_DECODERS = {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in get_args(Write)}


class StoreVerb(NamedTuple):
    """Decoders of the arguments and the result of a call."""

    arguments: msgspec.msgpack.Decoder[Any]
    answer: msgspec.msgpack.Decoder[Any]


def _verb(arguments: Any, answer: Any) -> StoreVerb:
    return StoreVerb(msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(answer))


#: The calls of a worker to the store.
STORE_VERBS = {
    "start_claims": _verb(tuple[ClaimRequest], None),
    "stop_claims": _verb(tuple[()], None),
    "renew": _verb(tuple[list[Lease], float], list[LeaseRenewal]),
    "record": _verb(tuple[Lease, str, msgspec.Raw], WriteResult),
    "record_all": _verb(tuple[list[tuple[Lease, str, msgspec.Raw]]], list[WriteResult | StoreErrorReply]),
    "job": _verb(tuple[str, str], JobView | None),
    "chunk": _verb(tuple[str, str, str], str | None),
    "chunks": _verb(tuple[str, str, list[str]], dict[str, str]),
    "trail": _verb(tuple[str, str], list[TrailEntry]),
    "completed": _verb(tuple[str, str, tuple[Instant, str] | None, int], list[PastRun]),
    "result": _verb(tuple[str, str, bool], ResultView | None),
    "code": _verb(tuple[list[CodeVersion]], None),
    "note": _verb(tuple[WorkerReport], None),
    "forget": _verb(tuple[str], None),
}


# -- connections -------------------------------------------------------------------------------------------------------


class MessageConnection(asyncio.Protocol, Generic[Message]):
    """One end of a connection. `on_message` gets each message; `on_close` is called once when the other end is gone."""

    def __init__(self, on_message: Callable[[Message], None], on_close: Callable[[], None], messages: Any) -> None:
        self._on_message = on_message
        self._on_close = on_close
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(messages)
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        #: a large frame that is not complete, and how many bytes it lacks
        self._large: mmap.mmap | None = None
        self._missing = 0
        self._outgoing: list[bytes] = []
        self._decoding: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        """Report that the other end is gone."""
        self._transport = None
        self._on_close()

    def data_received(self, data: bytes) -> None:
        """Decode complete frames; a large one is decoded in a thread, and later ones may overtake it."""
        rest = self._buffer
        rest += data if self._large is None else self._fill_large(memoryview(data))
        start = 0
        while len(rest) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, start)
            begin, end = start + _LENGTH.size, start + _LENGTH.size + length
            if len(rest) >= end:
                self._decode(bytes(rest[begin:end]))
                start = end
                continue
            if length > LARGE_TEXT:
                # Its pages come as they are written to; a bytearray of 64 MiB would be cleared first.
                self._large, self._missing = mmap.mmap(-1, length), length
                self._fill_large(memoryview(bytes(rest[begin:])))
                start = len(rest)
            break
        del rest[:start]

    def _fill_large(self, data: memoryview) -> memoryview:
        """Add to a large frame, and return what does not belong to it.

        It is received in place: copying 64 MiB would hold up the event loop for a tenth of a second.
        """
        part, frame = data[: self._missing], cast("mmap.mmap", self._large)
        start = len(frame) - self._missing
        frame[start : start + len(part)] = part
        self._missing -= len(part)
        if not self._missing:
            self._large = None
            self._decode(frame)
        return data[len(part) :]

    def _decode(self, frame: bytes | mmap.mmap) -> None:
        if len(frame) <= LARGE_TEXT:
            self._on_message(self._decoder.decode(frame))
            return
        task = asyncio.create_task(self._decode_large(frame))
        self._decoding.add(task)
        task.add_done_callback(self._decoding.discard)

    async def _decode_large(self, frame: bytes | mmap.mmap) -> None:
        self._on_message(await run_in_thread(self._decoder.decode, frame))

    def send(self, message: msgspec.Struct) -> None:
        """Send a message at the end of this turn of the event loop; dropped if the other end is gone."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._add(message)

    def send_now(self, message: msgspec.Struct) -> None:
        """Send a message and those before it in this moment; dropped if the other end is gone."""
        self._add(message)
        self._flush()

    def _add(self, message: msgspec.Struct) -> None:
        frame = encode(message)
        self._outgoing += (_LENGTH.pack(len(frame)), frame)

    def _flush(self) -> None:
        if self._transport is not None and self._outgoing:
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
