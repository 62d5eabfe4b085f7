"""What a worker and the runner on a Dask worker say to each other: JSON as bytes, which Dask carries unseen."""

from collections.abc import Mapping
from typing import Any

import msgspec

from langlauf.worker.processes.child_protocol import Broke, Returned, RunChunk, WasStale

#: Raised when one of the messages changes: two versions that do not understand each other say so.
FORM = 1


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """To the runner: one chunk, whose it is, and what says that it is still wanted."""

    form: int = FORM
    chunk: RunChunk
    #: Dask's name of the task
    task: str
    #: ids of job, org, attempt, trace and request, for the log
    facts: Mapping[str, Any]
    #: the variable on the scheduler that the worker renews, and within what time
    lease: str
    lease_seconds: float
    #: bytes of memory that the process may have, where that is limited
    memory: int | None


class Died(msgspec.Struct, frozen=True, tag=True):
    """From the runner: the process ended before the function did, or was ended because nobody renewed its lease."""

    how: str
    #: whether it can have been the chunk's own doing
    own: bool


Answer = Returned | Broke | WasStale | Died

_encoder = msgspec.json.Encoder()
_call = msgspec.json.Decoder(Call)
_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class UnknownForm(ValueError):
    """The message was written by another version."""


def write(message: Call | Answer) -> bytes:
    """The message as bytes."""
    return _encoder.encode(message)


def read_call(data: bytes) -> Call:
    """The call behind bytes; one of another version is refused."""
    try:
        call = _call.decode(data)
    except msgspec.MsgspecError as error:
        raise UnknownForm(str(error)) from error
    if call.form != FORM:
        raise UnknownForm(f"form {call.form} is not form {FORM}")
    return call


def read_answer(data: object) -> Answer:
    """The answer behind bytes."""
    if not isinstance(data, bytes):
        raise UnknownForm(f"{type(data).__name__} instead of bytes")
    try:
        return _answer.decode(data)
    except msgspec.MsgspecError as error:
        raise UnknownForm(str(error)) from error
