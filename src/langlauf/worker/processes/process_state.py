"""Restores the state of a child process after each call: the next job may belong to another org."""

import contextlib
import decimal
import faulthandler
import gc
import locale
import logging
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_HAS_AFFINITY = hasattr(os, "sched_getaffinity")
_DECIMAL_RULES = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps")


class ProcessState:
    """The process-wide state that a function can change, as far as it can be restored."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109 - only passed back to chdir
        self._environment = dict(os.environ)
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._forms = [_form(stream) for stream in self._streams]
        self._handlers = _handlers()
        self._threads = threading.active_count()
        self._identity = _identity()
        self._decimal = decimal.getcontext().copy()
        self._states = [(state, state.read()) for state in _STATES]

    def restore(self) -> bool:
        """Restore the state; False if something cannot be restored: then the process must not be reused."""
        try:
            for timer in _TIMERS:
                signal.setitimer(timer, 0)
            for number, handler in _handlers().items():
                if handler is not self._handlers[number]:
                    signal.signal(number, self._handlers[number])
            self._restore_streams()
            if dict(os.environ) != self._environment:
                os.environ.clear()
                os.environ.update(self._environment)
            os.chdir(self._folder)
            self._restore_states()
        except (OSError, ValueError, TypeError, AttributeError, locale.Error):
            return False
        return threading.active_count() <= self._threads and not _has_children() and _identity() == self._identity

    def _restore_streams(self) -> None:
        """Restore the streams, and flush what the job has printed."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the function may have replaced it
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = self._streams
        for stream, form in zip(self._streams, self._forms, strict=True):
            if _form(stream) != form:
                encoding, errors, line_buffering = form
                stream.reconfigure(encoding=encoding, errors=errors, line_buffering=line_buffering)  # type: ignore[union-attr]  # a text stream
        sys.stdout.flush()
        sys.stderr.flush()

    def _restore_states(self) -> None:
        time.tzset()  # TZ is restored; the C library may still have another zone
        for state, before in self._states:
            if state.read() != before:
                state.write(before)
        decimal.setcontext(self._decimal.copy())
        if not faulthandler.is_enabled():
            faulthandler.enable()
        _reseed()


class _State(NamedTuple):
    """One setting, with how to read and write it."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _attribute(owner: Any, name: str) -> _State:
    return _State(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _listed(owner: Any, name: str) -> _State:
    """Restore the content of a list in place, as other code may hold the list."""

    def write(content: list[Any]) -> None:
        setattr(owner, name, getattr(owner, name) if isinstance(getattr(owner, name), list) else [])
        getattr(owner, name)[:] = content

    return _State(lambda: list(getattr(owner, name)), write)


def _umask() -> int:
    """Read the umask, which is only possible by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _limit(which: int) -> _State:
    return _State(lambda: resource.getrlimit(which), lambda limits: resource.setrlimit(which, limits))


def _decimal_default() -> dict[str, Any]:
    """Return the default decimal context of new threads."""
    rules = {name: getattr(decimal.DefaultContext, name) for name in _DECIMAL_RULES}
    return {**rules, "traps": dict(rules["traps"])}


def _set_decimal_default(rules: dict[str, Any]) -> None:
    for name, value in rules.items():
        setattr(decimal.DefaultContext, name, value)


#: Settings of Python, the process and the C library.
_STATES: tuple[_State, ...] = (
    _State(_umask, os.umask),
    _State(sys.getrecursionlimit, sys.setrecursionlimit),
    _State(sys.getswitchinterval, sys.setswitchinterval),
    _State(sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    _State(sys.gettrace, sys.settrace),
    _State(sys.getprofile, sys.setprofile),
    _State(lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    _State(_decimal_default, _set_decimal_default),
    _State(socket.getdefaulttimeout, socket.setdefaulttimeout),
    _State(gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
    _State(gc.get_threshold, lambda threshold: gc.set_threshold(*threshold)),
    _State(lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda nice: os.setpriority(os.PRIO_PROCESS, 0, nice)),
    *([_State(lambda: os.sched_getaffinity(0), lambda cores: os.sched_setaffinity(0, cores))] if _HAS_AFFINITY else []),
    _State(lambda: logging.root.level, logging.root.setLevel),
    _State(lambda: logging.root.manager.disable, logging.disable),
    _listed(logging.root, "handlers"),
    _listed(logging.root, "filters"),
    _listed(sys, "path"),
    _listed(sys, "argv"),
    _attribute(sys, "excepthook"),
    _attribute(sys, "unraisablehook"),
    _attribute(threading, "excepthook"),
    _attribute(tempfile, "tempdir"),
    *map(_limit, _LIMITS),
)


def _reseed() -> None:
    """Reseed random generators: the seed of one job must not determine the next."""
    random.seed()
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()


def _form(stream: Any) -> tuple[Any, ...]:
    return stream.encoding, stream.errors, stream.line_buffering


def _identity() -> tuple[object, ...]:
    """Return users and groups: dropped privileges cannot be restored."""
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


def _handlers() -> dict[int, Any]:
    """Return the handler of each signal."""
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _has_children() -> bool:
    """Whether child processes are left, adopted orphans included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
