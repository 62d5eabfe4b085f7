"""The program of a child process, which runs plain functions for a worker.

It loads the application once and then runs one call after another. It has no access to the store: the requests of the
function go to the worker, which writes under the lease of the attempt.

`python -m langlauf.worker.processes.child DESCRIPTOR SUPERVISOR_PID`
"""

import contextlib
import contextvars
import ctypes
import faulthandler
import importlib
import os
import re
import resource
import runpy
import signal
import socket
import sys
import threading
import warnings
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from langlauf.analysis.chunks import Chunks, collected_sources
from langlauf.analysis.payload import encode, encode_result
from langlauf.analysis.plain_job import PlainJob, finished
from langlauf.analysis.registry import resolve
from langlauf.analysis.schema import input_type
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import AnalysisError, StaleAttempt, error_saying
from langlauf.domain.outcome import Failure
from langlauf.domain.provenance import Source
from langlauf.worker import processes
from langlauf.worker.failure import error_from, failure_of
from langlauf.worker.processes.child_protocol import (
    ApplicationLoaded,
    AttemptStale,
    CancelRequested,
    ChildConnection,
    ChildReply,
    ChildRequest,
    ChildTask,
    DeclareSource,
    FindPrevious,
    FunctionEnd,
    FunctionRaised,
    FunctionReturned,
    LoadApplication,
    LoadChunk,
    MapChunks,
    ReportPartial,
    ReportProgress,
    RequestFailed,
    RunAnalysis,
    RunChunk,
    SaveChunk,
    ValuesReply,
    WorkerGone,
    WriteReply,
    json_text,
    raw_json,
)
from langlauf.worker.processes.process_state import ProcessState
from langlauf.worker.processes.supervisor_program import adopt_orphans, give_way

_MAIN = "__langlauf_main__"
_PR_SET_PDEATHSIG = 1
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_forking = threading.local()


def main(descriptor: int, supervisor: int) -> None:
    """Run calls until the worker closes the connection."""
    _end_with(supervisor)
    give_way()
    adopt_orphans()
    faulthandler.enable()  # so that the log shows where C code crashed
    for number in _STOPPING:  # the worker decides when to stop, and may let the function finish
        signal.signal(number, _ignored)
    os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_restore_handlers)
    os.set_inheritable(descriptor, False)
    connection = ChildConnection(socket.socket(fileno=descriptor))
    with contextlib.suppress(WorkerGone):
        first = connection.receive()
        if isinstance(first, LoadApplication):
            connection.send(ApplicationLoaded(_load(first)))
        process_state = ProcessState()
        while True:
            task = connection.receive()
            if isinstance(task, RunAnalysis | RunChunk):  # not a cancel that came after the end
                with warnings.catch_warnings():  # a job may change the filters
                    end = contextvars.copy_context().run(_run, connection, task)
                connection.send(end if process_state.restore() else msgspec.structs.replace(end, reusable=False))


def _end_with(supervisor: int) -> None:
    """Have the system end this process with the supervisor, which otherwise ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it ended before that took effect
        os._exit(1)


def _ignored(*_: object) -> None:
    """Do nothing. Unlike `SIG_IGN`, a handler is not inherited by programs that a function starts."""


def _block_signals() -> None:
    """Block signals during a fork, until the new process has its own handlers."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _restore_handlers() -> None:
    """Let signals end a process that a function forks, as usual."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _unblock_signals()


def _load(application: LoadApplication) -> str | None:
    """Load the application; return what went wrong, if anything."""
    sys.path[:] = application.path
    processes.INSIDE = True
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text stream in this process
    if application.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (application.memory, application.memory))
    try:
        _load_main(application)
        for module in application.modules:
            importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - whatever the application does when it is imported
        return f"the application could not be loaded in a process: {failure_of(error, ()).message}{_advice(error)}"
    return None


def _advice(error: BaseException) -> str:
    """Return advice for a missing key that looks like an environment variable."""
    if isinstance(error, KeyError) and error.args and re.fullmatch("[A-Z][A-Z0-9_]+", str(error.args[0])):
        return f"; if it is an environment variable, pass it on to analyses: LANGLAUF_CHILD_ENV={error.args[0]}"
    return ""


def _load_main(application: LoadApplication) -> None:
    """Run the main module under another name, so that its `if __name__ == "__main__"` block does not run."""
    if application.main_module is not None:
        names = runpy.run_module(application.main_module, run_name=_MAIN, alter_sys=True)
    elif application.main_file is not None:
        names = runpy.run_path(application.main_file, run_name=_MAIN)
    else:
        return
    module = ModuleType(_MAIN)
    vars(module).update(names)
    sys.modules["__main__"] = sys.modules[_MAIN] = module


def _run(connection: ChildConnection, task: ChildTask) -> FunctionEnd:
    transient = ()
    try:
        transient = tuple(_import(reference) for reference in task.transient)
        return _call(connection, task)
    except StaleAttempt:
        return AttemptStale()
    except WorkerGone:
        raise
    except MemoryError as error:
        return FunctionRaised(failure=failure_of(error, transient), reusable=False)
    except BaseException as error:  # noqa: BLE001 - however the function ended, the worker needs the outcome
        return FunctionRaised(failure=_failure(error, transient))


def _call(connection: ChildConnection, task: ChildTask) -> FunctionReturned:
    function = _import(task.function)
    if isinstance(task, RunChunk):
        with collected_sources() as sources:
            payload = encode(finished(function(msgspec.json.decode(task.item))), task.largest_result)
        return FunctionReturned(payload=raw_json(payload), sources=list(sources.values()))
    values = msgspec.structs.asdict(msgspec.json.decode(task.input, type=_input_type(task.function, task.name)))
    attempt = ChildAttempt(connection, task)
    try:
        result = function(PlainJob(attempt), **values)
    finally:
        attempt.close()
    end = encode_result(result, task.largest_result)
    return FunctionReturned(payload=raw_json(end.payload), summary=raw_json(end.summary), views=raw_json(end.views))


def _import(reference: str) -> Any:
    """Import what a reference names, or raise an error that says how to make it importable."""
    try:
        return resolve(reference)
    except (ImportError, AttributeError) as error:
        raise error_saying(AnalysisError, "not_importable", reference=reference, detail=str(error)) from error


@cache
def _input_type(reference: str, name: str) -> type[msgspec.Struct]:
    return input_type(resolve(reference), name)


def _failure(error: BaseException, transient: tuple[Any, ...]) -> Failure:
    if isinstance(error, SystemExit | KeyboardInterrupt):
        replacement = error_saying(AnalysisError, "ended_program", error=type(error).__name__)
        replacement.__cause__ = error
        error = replacement
    return failure_of(error, transient)


class ChildAttempt:
    """The attempt as its function sees it: each call is a request to the worker, which has the lease. Thread-safe."""

    def __init__(self, connection: ChildConnection, task: RunAnalysis) -> None:
        self.org_id = task.org_id
        self.job_id = task.job_id
        self.number = task.attempt
        self.largest_result = task.largest_result
        self.trace_id = task.trace_id
        self.planned_at = task.planned_at
        self.traceparent = task.traceparent
        self.tracestate = task.tracestate
        self._connection = connection
        self._lock = threading.Lock()
        self._canceled = False
        #: the process that may use the connection; None once the function has ended
        self._owner: int | None = os.getpid()

    @property
    def canceled(self) -> bool:
        """Whether the job was canceled."""
        # Without the lock, another thread has it and receives the cancel.
        if not self._canceled and self._lock.acquire(blocking=False):
            try:
                self._canceled = self._owner == os.getpid() and isinstance(self._connection.poll(), CancelRequested)
            finally:
                self._lock.release()
        return self._canceled

    def close(self) -> None:
        """Refuse further requests, when the function has ended: it may have left threads behind."""
        with self._lock:
            self._owner = None

    def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Write; returns once the write is on disk."""
        self._request(_request_of(write))

    def chunk(self, key: str) -> str | None:
        """Return the stored value of a finished chunk as JSON text, or None."""
        return self._value(LoadChunk(key))

    def source(self, source: Source) -> None:
        """Store a source; returns once it is on disk."""
        self._request(DeclareSource(source))

    def previous(self, match: str) -> str | None:
        """Return the result of an earlier job with these values as JSON text, or None."""
        return self._value(FindPrevious(raw_json(match)))

    def _value(self, request: LoadChunk | FindPrevious) -> str | None:
        reply = self._request(request)
        return json_text(reply.payloads[0]) if isinstance(reply, ValuesReply) and reply.payloads else None

    def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """Return the values of all chunks as JSON text."""
        reply = self._request(MapChunks(chunks.function, chunks.keys, [raw_json(item) for item in chunks.items], step))
        return [json_text(payload) for payload in reply.payloads] if isinstance(reply, ValuesReply) else []

    def _request(self, request: ChildRequest) -> ChildReply:
        with self._lock:
            if self._owner != os.getpid():
                raise StaleAttempt("the function has ended, or this process was forked by it: it cannot use the job")
            self._connection.send(request)
            while True:
                reply = self._connection.receive()
                if isinstance(reply, CancelRequested):
                    self._canceled = True
                elif isinstance(reply, WriteReply | ValuesReply | RequestFailed):
                    break
        if isinstance(reply, RequestFailed):
            raise error_from(reply.failure)
        if isinstance(reply, WriteReply) and reply.refused:
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")
        return reply


def _request_of(write: Progress | Partial | Checkpoint) -> ChildRequest:
    if isinstance(write, Progress):
        return ReportProgress(percent=write.percent, step=write.step, replayed=write.replayed)
    if isinstance(write, Checkpoint):
        return SaveChunk(write.key, raw_json(write.payload))
    return ReportPartial(
        result_id=write.result_id,
        payload=raw_json(write.payload),
        summary=raw_json(write.summary),
        views=raw_json(write.views),
        percent=write.percent,
        step=write.step,
        replayed=write.replayed,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
