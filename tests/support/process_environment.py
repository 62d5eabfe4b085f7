"""The surroundings of a test process: the same ones wherever it is started."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tiers import Missing

#: What programs need to be found and to keep temporary files, and what steers the run itself.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "CI", "VIRTUAL_ENV", "PY_COLORS", "COVERAGE_PROCESS_START")
_KEPT_PREFIXES = ("LANGLAUF_TEST_", "PYTEST_")
#: The time zone is half an hour off every whole one, so that local time taken for UTC shows on any machine.
_FIXED = {"LANG": "C.UTF-8", "TZ": "IST-5:30", "TERM": "dumb"}
#: CI systems start background jobs with some of these ignored, and programs under test would inherit that.
_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD)


def isolate(home: Path) -> None:
    """Drop the environment, umask and signal dispositions that this process inherited; `home` is an empty folder."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    os.environ.clear()
    os.environ.update({**kept, **_FIXED, "HOME": str(home)})
    time.tzset()
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@contextmanager
def same_dispositions() -> Iterator[None]:
    """Fail a test that changes how signals are handled: programs that later tests start would ignore Ctrl-C."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        changed = [number for number, handler in before.items() if signal.getsignal(number) != handler]
        for number in changed:
            signal.signal(number, before[number])
    if changed:
        names = ", ".join(number.name for number in changed)
        pytest.fail(f"the test left {names} handled in another way; what handles signals runs in a process of its own")


def check_ipv6() -> None:
    """Raise `Missing` where this machine has no IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as made:
            made.bind(("::1", 0))
    except OSError as error:
        raise Missing(f"These tests need the IPv6 loopback address ::1: {error}.") from None
