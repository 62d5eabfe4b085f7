"""Plain functions for tests of processes. They stand at the top of a module, for a process finds them by name."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf, PermanentError, PlainJob, Result, TransientError, views
from langlauf.domain.result import LARGEST_VIEWS


class Flaky(Exception):
    """An error of the application that is declared transient."""


def note(file: str, word: str) -> None:
    """Adds a line to a file that the test reads."""
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{word}\n")


def add(job: PlainJob, a: int, b: int = 1) -> dict[str, Any]:
    """Adds, and says where it ran."""
    return {"sum": a + b, "pid": os.getpid(), "org": job.org_id, "attempt": job.attempt, "job_id": job.job_id}


def tells(job: PlainJob, parts: int) -> dict[str, Any]:
    """Uses everything the handle has."""
    done = []
    for part in job.chunks(range(parts), step="Part {}"):
        done.append(job.checkpoint(f"part-{part}", lambda number: {"n": number}, part))
        job.partial({"done": done}, summary={"parts": len(done)}, progress=50, step="half")
    job.progress(90, "nearly")
    return {"done": done, "canceled": job.canceled, "summary": {"parts": parts}}


def shows(job: PlainJob, rows: int, wrong: str = "") -> Any:
    """Says how people see what it found, and tells what it found before."""
    before = job.previous(rows=rows)
    job.partial({"rows": []}, views=[views.markdown("So far")])
    if wrong == "partial":
        job.partial({}, views=[views.table([[float("nan")]])])
    large = [views.markdown("x" * LARGEST_VIEWS)] if wrong == "final" else []
    return Result({"rows": [rows], "before": before}, summary="short", views=[views.table(at="/rows"), *large])


def prints(job: PlainJob, lines: int = 1) -> None:
    """Prints."""
    for number in range(lines):
        print(f"line {number} password=hunter22")
    print("and an error", file=sys.stderr)


def fails(job: PlainJob, how: str) -> Any:
    """Fails in the way it is told."""
    raise {
        "value": ValueError("no such place"),
        "transient": TransientError("busy"),
        "permanent": PermanentError("never", code="address_intel"),
        "flaky": Flaky("again"),
        "exit": SystemExit(3),
    }[how]


def returns(job: PlainJob, what: str) -> Any:
    """Returns something that cannot be stored."""
    return {"nan": float("nan"), "nul": "a\0b", "object": object(), "large": "x" * 3_000_000}[what]


def dies(job: PlainJob, how: str, times: int, file: str) -> dict[str, int]:
    """Ends its own process in its first attempts."""
    note(file, f"attempt {job.attempt}")
    if job.attempt <= times:
        if how == "exit":
            os._exit(3)
        if how == "segfault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"attempt": job.attempt}


def eats(job: PlainJob, megabytes: int) -> int:
    """Takes memory."""
    return len(bytearray(megabytes * 1_048_576))


def spins(job: PlainJob, lasting: float) -> dict[str, int]:
    """Holds the interpreter lock all the time: nothing else of its process can run."""
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(lasting * 1_000_000)))
    return {"attempt": job.attempt}


def ticks(job: PlainJob, file: str, lasting: float) -> dict[str, int]:
    """Notes every moment in which it still computes."""
    until = time.monotonic() + lasting
    while time.monotonic() < until:
        note(file, f"{time.clock_gettime(time.CLOCK_BOOTTIME):.3f} {os.getpid()} {job.attempt}")
        time.sleep(0.02)
    return {"attempt": job.attempt}


def holds(job: PlainJob, file: str, lasting: float) -> None:
    """Says where it runs, and then holds the interpreter lock."""
    note(file, f"started {os.getpid()}")
    spins(job, lasting)


def waits(job: PlainJob, file: str, polite: bool = False) -> dict[str, bool]:
    """Waits until it is canceled, or for ever."""
    note(file, f"started {os.getpid()}")
    while not (polite and job.canceled):
        time.sleep(0.01)
    note(file, "saw it")
    return {"canceled": True}


def family(job: PlainJob, file: str) -> None:
    """Starts a process of its own and waits for ever."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(file, f"started {other.pid}")
    time.sleep(600)


def litters(job: PlainJob) -> dict[str, int]:
    """Leaves a thread behind."""
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return {"pid": os.getpid()}


def square(item: dict[str, Any]) -> int:
    """A chunk."""
    note(item["file"], f"square {item['n']}")
    if item.get("fail") == "value":
        raise ValueError(f"cannot square {item['n']}")
    if item.get("fail") == "die" and not Path(item["file"] + ".died").exists():
        Path(item["file"] + ".died").touch()
        os._exit(9)
    return int(item["n"]) ** 2


async def cube(item: int) -> int:
    """A chunk as a coroutine."""
    return item**3


def pid_of(item: dict[str, Any]) -> int:
    """Notes where it runs, and says so once as many processes as it is told have noted themselves."""
    note(item["file"], str(os.getpid()))
    while len(set(Path(item["file"]).read_text(encoding="utf-8").splitlines())) < item["together"]:
        time.sleep(0.01)
    return os.getpid()


def maps(job: PlainJob, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Maps from a plain function."""
    return {"squares": job.map(square, items, step="Square {}")}


async def maps_on_loop(job: Job, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Maps from a coroutine."""
    return {"squares": await job.map(square, items), "cubes": await job.map(cube, [1, 2, 2])}


async def spreads(job: Job, parts: int, together: int, file: str) -> dict[str, Any]:
    """Maps over processes and says which."""
    items = [{"n": number, "together": together, "file": file} for number in range(parts)]
    return {"pids": await job.map(pid_of, items, key=lambda item: f"part-{item['n']}")}


def plain_app() -> Langlauf:
    """An application of plain functions."""
    app = Langlauf()
    for function in (
        add,
        tells,
        prints,
        returns,
        eats,
        spins,
        ticks,
        holds,
        waits,
        family,
        litters,
        maps,
        maps_on_loop,
        spreads,
    ):
        app.analysis(duplicates=True)(function)
    app.analysis(duplicates=True, transient=(Flaky,), max_retries=1)(fails)
    app.analysis(duplicates=True, max_retries=0)(dies)
    return app


app = plain_app()
