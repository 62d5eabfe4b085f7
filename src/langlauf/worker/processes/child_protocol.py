"""Messages between a worker and its child processes: length-prefixed frames of JSON, never pickle.

Payloads travel as raw JSON inside the frames: they are encoded once, where they are made, and not decoded on the way.
"""

import socket
import struct
from asyncio import StreamReader, StreamWriter

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.domain.instant import Instant
from langlauf.domain.outcome import Failure
from langlauf.domain.provenance import Source

_LENGTH = struct.Struct("!Q")
_NOTHING = msgspec.Raw(b"null")


class LoadApplication(msgspec.Struct, frozen=True, tag=True):
    """To a new process: the application to load before the first call."""

    path: list[str]
    #: the main module of the program, where it defines analyses
    main_file: str | None
    main_module: str | None
    #: modules to import before the first call
    modules: list[str]
    #: memory limit in bytes, if any
    memory: int | None


class ApplicationLoaded(msgspec.Struct, frozen=True, tag=True):
    """From a new process: it is ready for calls, or why the application could not be loaded."""

    problem: str | None = None


class RunAnalysis(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a process: run an attempt of a job. Functions and types are named, not pickled."""

    function: str
    name: str
    transient: tuple[str, ...]
    input: msgspec.Raw
    org_id: str
    job_id: str
    attempt: int
    largest_result: int
    trace_id: str
    planned_at: Instant | None
    traceparent: str | None
    tracestate: str | None


class RunChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a process: compute one chunk of a job."""

    function: str
    transient: tuple[str, ...]
    item: msgspec.Raw
    largest_result: int


class CancelRequested(msgspec.Struct, frozen=True, tag=True):
    """To a process: the job was canceled."""


class FunctionReturned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: the function returned. `reusable` unless it left threads or processes behind."""

    payload: msgspec.Raw
    summary: msgspec.Raw = _NOTHING
    views: msgspec.Raw = _NOTHING
    #: what a chunk declared; an analysis declares by itself
    sources: list[Source] = []
    reusable: bool = True


class FunctionRaised(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: the function raised."""

    failure: Failure
    reusable: bool = True


class AttemptStale(msgspec.Struct, frozen=True, tag=True):
    """From a process: the function ended because its attempt is no longer the current one."""

    reusable: bool = False


class ReportProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: write progress."""

    percent: float | None
    step: str | None
    replayed: bool


class ReportPartial(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: write a partial result."""

    result_id: str
    payload: msgspec.Raw
    summary: msgspec.Raw
    views: msgspec.Raw
    percent: float | None
    step: str | None
    replayed: bool


class SaveChunk(msgspec.Struct, frozen=True, tag=True):
    """From a process: store a finished chunk."""

    key: str
    payload: msgspec.Raw


class DeclareSource(msgspec.Struct, frozen=True, tag=True):
    """From a process: store a source."""

    source: Source


class LoadChunk(msgspec.Struct, frozen=True, tag=True):
    """From a process: return the stored value of a chunk."""

    key: str


class FindPrevious(msgspec.Struct, frozen=True, tag=True):
    """From a process: return the result of an earlier job with these values."""

    match: msgspec.Raw


class MapChunks(msgspec.Struct, frozen=True, tag=True):
    """From a process: compute these chunks in parallel."""

    function: str
    keys: list[str]
    items: list[msgspec.Raw]
    step: str | None


class WriteReply(msgspec.Struct, frozen=True, tag=True):
    """To a process: the write is on disk; or it was refused because the attempt is no longer the current one."""

    refused: bool = False


class ValuesReply(msgspec.Struct, frozen=True, tag=True):
    """To a process: the requested values, without those that do not exist."""

    payloads: list[msgspec.Raw]


class RequestFailed(msgspec.Struct, frozen=True, tag=True):
    """To a process: its request failed."""

    failure: Failure


ChildTask = RunAnalysis | RunChunk
FunctionEnd = FunctionReturned | FunctionRaised | AttemptStale
ChildRequest = ReportProgress | ReportPartial | SaveChunk | DeclareSource | LoadChunk | FindPrevious | MapChunks
ChildReply = WriteReply | ValuesReply | RequestFailed
ToChild = LoadApplication | ChildTask | CancelRequested | ChildReply
FromChild = ApplicationLoaded | ChildRequest | FunctionEnd

_encoder = msgspec.json.Encoder()
_to_child = msgspec.json.Decoder(ToChild)
_from_child = msgspec.json.Decoder(FromChild)


def encode_frame(message: ToChild | FromChild) -> bytes:
    """Encode a message with its length before it."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


def raw_json(text: str | None) -> msgspec.Raw:
    """Wrap JSON text for a frame; None becomes JSON null."""
    return _NOTHING if text is None else msgspec.Raw(text.encode())


def json_text(payload: msgspec.Raw) -> str:
    """Return the JSON text of a payload."""
    return bytes(payload).decode()


def is_large(*payloads: msgspec.Raw) -> bool:
    """Whether payloads are too large to decode on an event loop."""
    return sum(memoryview(payload).nbytes for payload in payloads) > LARGE_TEXT


def json_text_or_none(payload: msgspec.Raw) -> str | None:
    """Return the JSON text of a summary or views, or None for JSON null."""
    text = json_text(payload)
    return None if text == "null" else text


class WorkerGone(BaseException):
    """The worker closed the connection. Not an `Exception`, so that a function does not catch it."""


class ChildConnection:
    """The connection in the child process: blocking calls."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = bytearray()

    def send(self, message: FromChild) -> None:
        """Send a message."""
        self._connection.sendall(encode_frame(message))

    def receive(self) -> ToChild:
        """Return the next message, or raise `WorkerGone`."""
        while (message := self._next()) is None:
            self._fill(0)
        return message

    def poll(self) -> ToChild | None:
        """Return the next message if there is one now."""
        message = self._next()
        if message is None:
            try:
                self._fill(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            message = self._next()
        return message

    def _fill(self, flags: int) -> None:
        data = self._connection.recv(1 << 20, flags)
        if not data:
            raise WorkerGone
        self._rest += data

    def _next(self) -> ToChild | None:
        if len(self._rest) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._rest)
        end = _LENGTH.size + length
        if len(self._rest) < end:
            return None
        data = bytes(self._rest[_LENGTH.size : end])
        del self._rest[:end]
        message: ToChild = _to_child.decode(data)
        return message


class ChildStream:
    """The connection in the worker: large frames are encoded and decoded in a thread."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: ToChild) -> None:
        """Send a message."""
        large = isinstance(message, ValuesReply) and is_large(*message.payloads)
        self._writer.write(await run_in_thread(encode_frame, message) if large else encode_frame(message))
        await self._writer.drain()

    async def receive(self) -> FromChild:
        """Return the next message; raises EOFError or ConnectionError if the process is gone."""
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        data = await self._reader.readexactly(length)
        message: FromChild = (
            await run_in_thread(_from_child.decode, data) if length > LARGE_TEXT else _from_child.decode(data)
        )
        return message

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
