"""A process that runs plain functions for a worker: `python -m langlauf.worker.processes.child FD`.

It loads the application once and then takes one call after another over its line. It writes nothing to the store: what
the function tells goes to the worker, which writes it under the attempt's lease.
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

from langlauf.analysis.naming import resolve
from langlauf.analysis.payload import Final, encode, final
from langlauf.analysis.plain import PlainJob, finished
from langlauf.analysis.schema import input_type
from langlauf.domain.errors import AnalysisError, StaleAttempt
from langlauf.domain.outcome import Failure
from langlauf.worker import processes
from langlauf.worker.failure import failure_of
from langlauf.worker.processes.asking import RemoteAttempt
from langlauf.worker.processes.child_protocol import (
    Begin,
    Broke,
    End,
    ProcessLine,
    Ready,
    Returned,
    RunAnalysis,
    RunChunk,
    Task,
    WasStale,
    WorkerGone,
    raw,
)
from langlauf.worker.processes.process_state import Surroundings
from langlauf.worker.processes.supervisor_program import adopt_orphans

_MAIN = "__langlauf_main__"
_PR_SET_PDEATHSIG = 1
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_forking = threading.local()


def main(descriptor: int, keeper: int) -> None:
    """Serves calls until the worker hangs up."""
    _end_with(keeper)
    adopt_orphans()
    faulthandler.enable()  # a crash in C shows where it happened, in the log
    for number in _STOPPING:  # stopping is the worker's decision; it may want to finish
        signal.signal(number, _ignored)
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_in, after_in_child=_as_usual)
    os.set_inheritable(descriptor, False)
    line = ProcessLine(socket.socket(fileno=descriptor))
    with contextlib.suppress(WorkerGone):
        begin = line.receive()
        if isinstance(begin, Begin):
            line.send(Ready(_prepare(begin)))
        surroundings = Surroundings()
        while True:
            task = line.receive()
            if isinstance(task, RunAnalysis | RunChunk):  # a wish to stop may come after the end: nothing is left to do
                with warnings.catch_warnings():  # filters and what shows them are the job's own
                    end = contextvars.copy_context().run(_run, line, task)
                line.send(end if surroundings.restore() else msgspec.structs.replace(end, reusable=False))


def _end_with(keeper: int) -> None:
    """The keeper ends this process; where the keeper itself is gone, the system does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:  # it was gone before that took effect
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


def _prepare(begin: Begin) -> str | None:
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


def _load_main(begin: Begin) -> None:
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


def _run(line: ProcessLine, task: Task) -> End:
    transient = ()
    try:
        transient = tuple(_found(reference) for reference in task.transient)
        end = _call(line, task)
        return Returned(payload=raw(end.payload), summary=raw(end.summary), views=raw(end.views))
    except StaleAttempt:
        return WasStale()
    except WorkerGone:
        raise
    except MemoryError as error:
        return Broke(failure=failure_of(error, transient), reusable=False)
    except BaseException as error:  # noqa: BLE001 - however the function ended, the worker must hear of it
        return Broke(failure=_failure(error, transient))


def _call(line: ProcessLine, task: Task) -> Final:
    function = _found(task.function)
    if isinstance(task, RunChunk):
        return Final(encode(finished(function(msgspec.json.decode(task.item))), task.largest_result))
    values = msgspec.structs.asdict(msgspec.json.decode(task.input, type=_input_type(task.function, task.name)))
    attempt = RemoteAttempt(line, task)
    try:
        result = function(PlainJob(attempt), **values)
    finally:
        attempt.close()
    return final(result, task.largest_result)


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


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
