"""Messages between a worker and its child processes: length-prefixed frames of JSON, never pickle.

Payloads travel as raw JSON inside the frames: they are encoded once, where they are made, and not decoded on the way.
"""

import socket
import struct
from asyncio import StreamReader, StreamWriter

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.domain.outcome import Failure

_LENGTH = struct.Struct("!Q")
_NOTHING = msgspec.Raw(b"null")


class LoadApplication(msgspec.Struct, frozen=True, tag=True):
    """To a new process: what it needs before it can run anything."""

    path: list[str]
    #: how the program was started, where functions of its main module are to be called
    main_file: str | None
    main_module: str | None
    #: modules to import before the first call
    modules: list[str]
    #: bytes of memory it may have, where that is limited
    memory: int | None


class ApplicationLoaded(msgspec.Struct, frozen=True, tag=True):
    """From a new process: it can be called; or what kept it from loading the application."""

    problem: str | None = None


class RunAnalysis(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a process: run an attempt of a job. Functions and types are told by name."""

    function: str
    name: str
    transient: tuple[str, ...]
    input: msgspec.Raw
    org_id: str
    job_id: str
    attempt: int
    largest_result: int
    trace_id: str
    traceparent: str | None
    tracestate: str | None


class RunChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To a process: compute one part of a job."""

    function: str
    transient: tuple[str, ...]
    item: msgspec.Raw
    largest_result: int


class CancelRequested(msgspec.Struct, frozen=True, tag=True):
    """To a process: somebody asked the job to stop."""


class FunctionReturned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: the function returned. `reusable` unless it left threads or processes behind."""

    payload: msgspec.Raw
    summary: msgspec.Raw
    views: msgspec.Raw = _NOTHING
    reusable: bool = True


class FunctionRaised(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: the function raised."""

    failure: Failure
    reusable: bool = True


class AttemptStale(msgspec.Struct, frozen=True, tag=True):
    """From a process: the function ended because its attempt is no longer the current one."""

    reusable: bool = False


class ReportProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: how far it is."""

    percent: float | None
    step: str | None
    replayed: bool


class ReportPartial(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From a process: what it has so far."""

    result_id: str
    payload: msgspec.Raw
    summary: msgspec.Raw
    views: msgspec.Raw
    percent: float | None
    step: str | None
    replayed: bool


class SaveChunk(msgspec.Struct, frozen=True, tag=True):
    """From a process: a chunk is done."""

    key: str
    payload: msgspec.Raw


class LoadChunk(msgspec.Struct, frozen=True, tag=True):
    """From a process: is this chunk done already?"""

    key: str


class FindPrevious(msgspec.Struct, frozen=True, tag=True):
    """From a process: what did an earlier job with these values find?"""

    match: msgspec.Raw


class MapChunks(msgspec.Struct, frozen=True, tag=True):
    """From a process: compute these chunks side by side."""

    function: str
    keys: list[str]
    items: list[msgspec.Raw]
    step: str | None


class WriteReply(msgspec.Struct, frozen=True, tag=True):
    """To a process: the write is on disk; or it was refused because the attempt is no longer the current one."""

    refused: bool = False


class ValuesReply(msgspec.Struct, frozen=True, tag=True):
    """To a process: the values it asked for; nothing for one that is not there."""

    payloads: list[msgspec.Raw]


class RequestFailed(msgspec.Struct, frozen=True, tag=True):
    """To a process: what it asked for failed."""

    failure: Failure


ChildTask = RunAnalysis | RunChunk
FunctionEnd = FunctionReturned | FunctionRaised | AttemptStale
ChildRequest = ReportProgress | ReportPartial | SaveChunk | LoadChunk | FindPrevious | MapChunks
ChildReply = WriteReply | ValuesReply | RequestFailed
ToChild = LoadApplication | ChildTask | CancelRequested | ChildReply
FromChild = ApplicationLoaded | ChildRequest | FunctionEnd

_encoder = msgspec.json.Encoder()
_to_process = msgspec.json.Decoder(ToChild)
_from_process = msgspec.json.Decoder(FromChild)


def encode_frame(message: ToChild | FromChild) -> bytes:
    """The message as it goes over the line."""
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data


def raw_json(text: str | None) -> msgspec.Raw:
    """JSON text for a frame; a summary or views that are not there are JSON's own nothing."""
    return _NOTHING if text is None else msgspec.Raw(text.encode())


def json_text(payload: msgspec.Raw) -> str:
    """JSON text from a frame."""
    return bytes(payload).decode()


def is_large(*payloads: msgspec.Raw) -> bool:
    """Whether these are more than an event loop may be held up for."""
    return sum(memoryview(payload).nbytes for payload in payloads) > LARGE_TEXT


def json_text_or_none(payload: msgspec.Raw) -> str | None:
    """A summary or views from a frame, where there are any."""
    text = json_text(payload)
    return None if text == "null" else text


class WorkerGone(BaseException):
    """Nobody is at the other end. Not an exception that a function could take for its own."""


class ChildConnection:
    """The end of the line inside a process: plain blocking calls."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = bytearray()

    def send(self, message: FromChild) -> None:
        """Returns once the message is on its way."""
        self._connection.sendall(encode_frame(message))

    def receive(self) -> ToChild:
        """The next message; raises `WorkerGone` where there will be none."""
        while (message := self._next()) is None:
            self._fill(0)
        return message

    def poll(self) -> ToChild | None:
        """The next message if there is one now."""
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
        message: ToChild = _to_process.decode(data)
        return message


class ChildStream:
    """The end of the line inside the worker: nothing here holds up the event loop."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: ToChild) -> None:
        """Returns once the message is on its way."""
        large = isinstance(message, ValuesReply) and is_large(*message.payloads)
        self._writer.write(await run_in_thread(encode_frame, message) if large else encode_frame(message))
        await self._writer.drain()

    async def receive(self) -> FromChild:
        """The next message; raises EOFError (or ConnectionError) where the process is gone."""
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        data = await self._reader.readexactly(length)
        message: FromChild = (
            await run_in_thread(_from_process.decode, data) if length > LARGE_TEXT else _from_process.decode(data)
        )
        return message

    def close(self) -> None:
        """Lets go of the line."""
        self._writer.close()
