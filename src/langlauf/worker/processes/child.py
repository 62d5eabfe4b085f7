"""A process that runs plain functions for a worker: `python -m langlauf.worker.processes.child FD`."""

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

from langlauf.analysis.chunks import Chunks
from langlauf.analysis.payload import EncodedResult, encode, encode_result
from langlauf.analysis.plain_job import PlainJob, finished
from langlauf.analysis.registry import resolve
from langlauf.analysis.schema import input_type
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import AnalysisError, StaleAttempt
from langlauf.domain.outcome import Failure
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
from langlauf.worker.processes.supervisor_program import adopt_orphans

_MAIN = "__langlauf_main__"
_PR_SET_PDEATHSIG = 1
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_forking = threading.local()


def main(descriptor: int, supervisor: int) -> None:
    """Serves calls until the worker hangs up."""
    _end_with(supervisor)
    adopt_orphans()
    faulthandler.enable()  # a crash in C shows where it happened, in the log
    for number in _STOPPING:  # stopping is the worker's decision; it may want to finish
        signal.signal(number, _ignored)
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_in, after_in_child=_as_usual)
    os.set_inheritable(descriptor, False)
    line = ChildConnection(socket.socket(fileno=descriptor))
    with contextlib.suppress(WorkerGone):
        begin = line.receive()
        if isinstance(begin, LoadApplication):
            line.send(ApplicationLoaded(_prepare(begin)))
        process_state = ProcessState()
        while True:
            task = line.receive()
            if isinstance(task, RunAnalysis | RunChunk):  # a wish to stop may come after the end: nothing is left to do
                with warnings.catch_warnings():  # filters and what shows them are the job's own
                    end = contextvars.copy_context().run(_run, line, task)
                line.send(end if process_state.restore() else msgspec.structs.replace(end, reusable=False))


def _end_with(supervisor: int) -> None:
    """The supervisor ends this process; where the supervisor itself is gone, the system does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it was gone before that took effect
        os._exit(1)


def _ignored(*_: object) -> None:
    """A handler, for a signal that is ignored would be ignored by every program that a function starts."""


def _hold_signals() -> None:
    """A fork begins. What its process is sent before it has handlers of its own waits for these."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)


def _let_signals_in() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _as_usual() -> None:
    """A process that a function forks can be ended by signals like any other."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _let_signals_in()


def _prepare(begin: LoadApplication) -> str | None:
    """Loads the application; what went wrong, if anything."""
    sys.path[:] = begin.path
    processes.INSIDE = True
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a text stream here
    if begin.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (begin.memory, begin.memory))
    try:
        _load_main(begin)
        for module in begin.modules:
            importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - whatever the application does when it is imported
        return f"the application could not be loaded in a process: {failure_of(error, ()).message}{_advice(error)}"
    return None


def _advice(error: BaseException) -> str:
    """What to do about a missing name that looks like a variable of the environment."""
    if isinstance(error, KeyError) and error.args and re.fullmatch("[A-Z][A-Z0-9_]+", str(error.args[0])):
        return f"; if it is a variable of the environment, let analyses see it: LANGLAUF_CHILD_ENV={error.args[0]}"
    return ""


def _load_main(begin: LoadApplication) -> None:
    """The program's main module under another name, so that its `if __name__ == "__main__"` stays out."""
    if begin.main_module is not None:
        names = runpy.run_module(begin.main_module, run_name=_MAIN, alter_sys=True)
    elif begin.main_file is not None:
        names = runpy.run_path(begin.main_file, run_name=_MAIN)
    else:
        return
    module = ModuleType(_MAIN)
    vars(module).update(names)
    sys.modules["__main__"] = sys.modules[_MAIN] = module


def _run(line: ChildConnection, task: ChildTask) -> FunctionEnd:
    transient = ()
    try:
        transient = tuple(_found(reference) for reference in task.transient)
        end = _call(line, task)
        return FunctionReturned(payload=raw_json(end.payload), summary=raw_json(end.summary), views=raw_json(end.views))
    except StaleAttempt:
        return AttemptStale()
    except WorkerGone:
        raise
    except MemoryError as error:
        return FunctionRaised(failure=failure_of(error, transient), reusable=False)
    except BaseException as error:  # noqa: BLE001 - however the function ended, the worker must hear of it
        return FunctionRaised(failure=_failure(error, transient))


def _call(line: ChildConnection, task: ChildTask) -> EncodedResult:
    function = _found(task.function)
    if isinstance(task, RunChunk):
        return EncodedResult(encode(finished(function(msgspec.json.decode(task.item))), task.largest_result))
    values = msgspec.structs.asdict(msgspec.json.decode(task.input, type=_input_type(task.function, task.name)))
    attempt = ChildAttempt(line, task)
    try:
        result = function(PlainJob(attempt), **values)
    finally:
        attempt.close()
    return encode_result(result, task.largest_result)


def _found(reference: str) -> Any:
    """What the reference names. Where it is not here, that is no failure of the function: people hear what to do."""
    try:
        return resolve(reference)
    except (ImportError, AttributeError) as error:
        raise AnalysisError(
            f"{reference} cannot be imported where it is to be computed ({error}): install the application there, in "
            "the version of the worker that asks."
        ) from error


@cache
def _input_type(reference: str, name: str) -> type[msgspec.Struct]:
    return input_type(resolve(reference), name)


def _failure(error: BaseException, transient: tuple[Any, ...]) -> Failure:
    if isinstance(error, SystemExit | KeyboardInterrupt):
        told = RuntimeError(f"the analysis tried to end the program: {type(error).__name__}")
        told.__cause__ = error
        error = told
    return failure_of(error, transient)


class ChildAttempt:
    """Asks over the line; several threads of the function may do so, one after another."""

    def __init__(self, line: ChildConnection, task: RunAnalysis) -> None:
        self.org_id = task.org_id
        self.job_id = task.job_id
        self.number = task.attempt
        self.largest_result = task.largest_result
        self.trace_id = task.trace_id
        self.traceparent = task.traceparent
        self.tracestate = task.tracestate
        self._line = line
        self._lock = threading.Lock()
        self._canceled = False
        #: the process that may use the line; None once the function has ended
        self._owner: int | None = os.getpid()

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""
        if not self._canceled and self._lock.acquire(blocking=False):  # whoever asks now will see it come by
            try:
                self._canceled = self._owner == os.getpid() and isinstance(self._line.poll(), CancelRequested)
            finally:
                self._lock.release()
        return self._canceled

    def close(self) -> None:
        """The function has ended: a thread that it left behind cannot speak for it any more."""
        with self._lock:
            self._owner = None

    def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk."""
        self._ask(_question(write))

    def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""
        return self._find(LoadChunk(key))

    def previous(self, match: str) -> str | None:
        """What an earlier job with these values found, as JSON text."""
        return self._find(FindPrevious(raw_json(match)))

    def _find(self, question: LoadChunk | FindPrevious) -> str | None:
        answer = self._ask(question)
        return json_text(answer.payloads[0]) if isinstance(answer, ValuesReply) and answer.payloads else None

    def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """The values of all chunks as JSON text."""
        answer = self._ask(MapChunks(chunks.function, chunks.keys, [raw_json(item) for item in chunks.items], step))
        return [json_text(payload) for payload in answer.payloads] if isinstance(answer, ValuesReply) else []

    def _ask(self, question: ChildRequest) -> ChildReply:
        with self._lock:
            if self._owner != os.getpid():
                raise StaleAttempt("the function has ended, or this is a process of its own; it cannot tell any more")
            self._line.send(question)
            while True:
                answer = self._line.receive()
                if isinstance(answer, CancelRequested):
                    self._canceled = True
                elif isinstance(answer, WriteReply | ValuesReply | RequestFailed):
                    break
        if isinstance(answer, RequestFailed):
            raise error_from(answer.failure)
        if isinstance(answer, WriteReply) and answer.refused:
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")
        return answer


def _question(write: Progress | Partial | Checkpoint) -> ChildRequest:
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
