"""Plain functions that do what functions may do to their process, and what they should not."""

import contextvars
import decimal
import gc
import gzip
import io
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf, PlainJob
from tests.support.plain_app import note


def _double(number: int) -> int:
    return 2 * number


def pools(job: PlainJob) -> list[int]:
    """Uses a pool of forked processes and ends it."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(_double, [1, 2, 3])


def forks(job: PlainJob) -> list[int]:
    """Ends processes as soon as they are forked; by which signals they ended."""
    return sorted({os.WTERMSIG(os.waitpid(_forked_and_ended(), 0)[1]) for _ in range(100)})


def _forked_and_ended() -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        while True:
            signal.pause()
    os.kill(pid, signal.SIGTERM)
    return pid


def ends_early(job: PlainJob, how: str) -> Any:
    """Reads past the end of something."""
    if how == "input":
        return input()
    with gzip.open(io.BytesIO(gzip.compress(b"x" * 1_000)[:-20])) as file:
        return len(file.read())


def babbles(job: PlainJob) -> str:
    """Leaves threads behind that go on telling while it returns something large."""

    def tell() -> None:
        for _ in range(10_000):
            job.progress(10, "still here")

    for _ in range(2):
        threading.Thread(target=tell, daemon=True).start()
    time.sleep(0.1)
    return "x" * 8_000_000


def streams(job: PlainJob, how: str) -> str:
    """Does away with its standard output."""
    if how == "closes":
        sys.stdout.close()
    else:
        sys.stdout = None
    return how


def dies_by(job: PlainJob, number: int) -> int:
    """Dies of a signal in its first attempt."""
    if job.attempt == 1:
        os.kill(os.getpid(), number)
        time.sleep(600)
    return job.attempt


def holds_the_line(job: PlainJob) -> int:
    """Leaves a process with everything it had open, in a session of its own, and dies."""
    if job.attempt == 1:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        os._exit(7)
    return job.attempt


def slow(item: int) -> int:
    """A chunk that takes long."""
    time.sleep(600 if item else 0)
    return item


def dies_in_map(job: PlainJob) -> int:
    """Dies while others compute for it."""
    if job.attempt == 1:
        threading.Timer(0.5, os._exit, (5,)).start()
        job.map(slow, [0, 1])
    return job.attempt


def decimals(job: PlainJob) -> str:
    """Tells its progress in another kind of number."""
    job.progress(Decimal("12.5"), "in between")  # type: ignore[arg-type]  # a number all the same
    return "fine"


def plain_item(item: int) -> int:
    """A chunk."""
    return item


def bad_step(job: PlainJob) -> Any:
    """Says its steps in words that do not fit the items."""
    return job.map(plain_item, [1], step="{name}")


async def bad_step_on_loop(job: Job) -> Any:
    """The same from a coroutine."""
    return await job.map(plain_item, [1], step="{name}")


def escapes(job: PlainJob, file: str) -> None:
    """Starts a process in a session of its own and waits for ever."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    note(file, f"{other.pid}")
    time.sleep(600)


def disturbs(job: PlainJob, folder: str) -> dict[str, Any]:
    """Changes everything that the next function would find, and leaves an orphan."""
    os.environ["DISTURBED"] = "1"
    Path(folder).mkdir()
    os.chdir(folder)
    Path(folder).rmdir()
    signal.alarm(600)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout = io.StringIO()
    return {"pid": os.getpid()}


_VARIABLE = contextvars.ContextVar("variable", default="as it was")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _text_stream() -> Any:
    return sys.stderr


def _move(zone: str) -> None:
    os.environ["TZ"] = zone
    time.tzset()


#: What a function may set for all code of its process: how it is read, and how it is set to something unusual.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "umask": (_umask, lambda: os.umask(0)),
    "recursion": (sys.getrecursionlimit, lambda: sys.setrecursionlimit(50_000)),
    "locale": (lambda: locale.setlocale(locale.LC_ALL), lambda: locale.setlocale(locale.LC_ALL, "POSIX")),
    "decimals": (lambda: str(Decimal(1) / 3), lambda: setattr(decimal.getcontext(), "prec", 3)),
    "threads' decimals": (lambda: decimal.DefaultContext.prec, lambda: setattr(decimal.DefaultContext, "prec", 3)),
    "encoding": (lambda: sys.stderr.encoding, lambda: _text_stream().reconfigure(encoding="latin-1")),
    "time zone": (lambda: time.timezone, lambda: _move("Asia/Tokyo")),
    "warnings": (lambda: len(warnings.filters), lambda: warnings.simplefilter("error")),
    "digits": (sys.get_int_max_str_digits, lambda: sys.set_int_max_str_digits(0)),
    "socket": (socket.getdefaulttimeout, lambda: socket.setdefaulttimeout(0.001)),
    "collector": (gc.isenabled, gc.disable),
    "log": (lambda: logging.root.level, lambda: logging.root.setLevel(1)),
    "log handlers": (lambda: len(logging.root.handlers), lambda: logging.root.addHandler(logging.NullHandler())),
    "path": (lambda: list(sys.path), lambda: sys.path.insert(0, "/nowhere")),
    "context": (_VARIABLE.get, lambda: _VARIABLE.set("disturbed")),
    "limit": (
        lambda: resource.getrlimit(resource.RLIMIT_CORE)[0],
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])),
    ),
}


def sets(job: PlainJob, disturb: bool) -> dict[str, Any]:
    """Says how its process is set, and what it draws after a seed; then it may set everything to something else."""
    found = {name: read() for name, (read, _) in SETTINGS.items()}
    if disturb:
        for _, change in SETTINGS.values():
            change()
        random.seed(1)
    return {"pid": os.getpid(), "drawn": random.getrandbits(48), "found": found}


def steps_down(job: PlainJob) -> int:
    """Gives up what it cannot take back: root its rights, and others a limit."""
    if os.geteuid() == 0:
        os.setresuid(65_534, 65_534, 65_534)
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    return os.getpid()


def looks(job: PlainJob) -> dict[str, Any]:
    """Says what it finds."""
    return {
        "pid": os.getpid(),
        "folder": str(Path.cwd()),
        "environment": os.environ.get("DISTURBED"),
        "alarm": signal.alarm(0),
        "handled": callable(signal.getsignal(signal.SIGTERM)),
    }


def orphans(job: PlainJob, file: str) -> dict[str, int]:
    """Leaves a process behind whose parent is gone."""
    started = subprocess.run(["sh", "-c", "sleep 600 > /dev/null & echo $!"], check=True, stdout=subprocess.PIPE)
    note(file, started.stdout.decode().strip())
    return {"pid": os.getpid()}


async def many(job: Job, count: int) -> int:
    """Maps over many items that are not small."""
    items = [list(range(index, index + 2_000)) for index in range(count)]
    return sum(await job.map(first_of, items))


def first_of(item: list[int]) -> int:
    """A chunk."""
    return item[0]


app = Langlauf()
for function in (
    *(pools, forks, ends_early, babbles, streams, dies_by, holds_the_line, dies_in_map, decimals, bad_step),
    *(escapes, disturbs, looks, orphans, bad_step_on_loop, many, sets, steps_down),
):
    app.analysis(duplicates=True, timeout=600, max_retries=0)(function)
