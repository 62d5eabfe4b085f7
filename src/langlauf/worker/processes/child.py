"""A process that runs plain functions for a worker: `python -m langlauf.worker.processes.child FD`.

It loads the application once and then takes one call after another over its line. It writes nothing to the store: what
the function tells goes to the worker, which writes it under the attempt's lease.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import os
import resource
import runpy
import signal
import socket
import sys
import threading
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from langlauf.analysis.naming import resolve
from langlauf.analysis.payload import encode, final
from langlauf.analysis.plain import PlainJob, finished
from langlauf.analysis.schema import input_type
from langlauf.domain.errors import StaleAttempt
from langlauf.domain.outcome import Failure
from langlauf.worker.failing import failure_of
from langlauf.worker.processes.asking import RemoteAttempt
from langlauf.worker.processes.wire import (
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
    raw,
)

_MAIN = "__langlauf_main__"
_PR_SET_PDEATHSIG = 1


def main(descriptor: int) -> None:
    """Serves calls until the worker hangs up."""
    _end_with_keeper()
    faulthandler.enable()  # a crash in C shows where it happened, in the log
    for number in (signal.SIGINT, signal.SIGTERM):  # stopping is the worker's decision; it may want to finish
        signal.signal(number, lambda *_: None)
    os.set_inheritable(descriptor, False)
    line = ProcessLine(socket.socket(fileno=descriptor))
    with contextlib.suppress(EOFError):
        begin = line.receive()
        if isinstance(begin, Begin):
            line.send(Ready(_prepare(begin)))
        while True:
            task = line.receive()
            if isinstance(task, RunAnalysis | RunChunk):  # a wish to stop may come after the end: nothing is left to do
                end = _run(line, task)
                sys.stdout.flush()
                sys.stderr.flush()
                line.send(end)


def _end_with_keeper() -> None:
    """The keeper ends this process; where the keeper itself is gone, the system does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prepare(begin: Begin) -> str | None:
    """Loads the application; what went wrong, if anything."""
    sys.path[:] = begin.path
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a text stream here
    if begin.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (begin.memory, begin.memory))
    try:
        _load_main(begin)
        for module in begin.modules:
            importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - whatever the application does when it is imported
        return f"the application could not be loaded in a process: {failure_of(error, ()).message}"
    return None


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
        transient = tuple(resolve(reference) for reference in task.transient)
        payload, summary = _call(line, task)
        return Returned(payload=raw(payload), summary=raw(summary), reusable=_is_tidy())
    except StaleAttempt:
        return WasStale()
    except EOFError:
        raise
    except MemoryError as error:
        return Broke(failure=failure_of(error, transient), reusable=False)
    except BaseException as error:  # noqa: BLE001 - however the function ended, the worker must hear of it
        return Broke(failure=_failure(error, transient), reusable=_is_tidy())


def _call(line: ProcessLine, task: Task) -> tuple[str, str | None]:
    function = resolve(task.function)
    if isinstance(task, RunChunk):
        return encode(finished(function(msgspec.json.decode(task.item))), task.largest_result), None
    values = msgspec.structs.asdict(msgspec.json.decode(task.input, type=_input_type(task.function, task.name)))
    result = function(PlainJob(RemoteAttempt(line, task)), **values)
    return final(result, task.largest_result)


@cache
def _input_type(reference: str, name: str) -> type[msgspec.Struct]:
    return input_type(resolve(reference), name)


def _failure(error: BaseException, transient: tuple[Any, ...]) -> Failure:
    if isinstance(error, SystemExit | KeyboardInterrupt):
        told = RuntimeError(f"the analysis tried to end the program: {type(error).__name__}")
        told.__cause__ = error
        error = told
    return failure_of(error, transient)


def _is_tidy() -> bool:
    """Whether the function left nothing running behind."""
    if threading.active_count() > 1:
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


if __name__ == "__main__":
    main(int(sys.argv[1]))
