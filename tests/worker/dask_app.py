"""Functions for chunks that are watched, stopped or that kill, where Dask workers find them."""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf, PermanentError, PlainJob, TransientError, source
from tests.support.plain_app import Flaky, cube, note, square
from tests.support.processes import parent


def place_of(item: int) -> dict[str, int]:
    """Says where it ran: its process, and the worker that started that one's supervisor."""
    source("Places", version="1")
    time.sleep(0.05)
    return {"item": item, "pid": os.getpid(), "worker": parent(parent(os.getpid()))}


def tick(item: dict[str, Any]) -> None:
    """Notes every moment in which it computes, for a long time."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        note(item["file"], f"{time.clock_gettime(time.CLOCK_BOOTTIME):.3f} {os.getpid()} {parent(parent(os.getpid()))}")
        time.sleep(0.02)


def kill(item: dict[str, Any]) -> str:
    """Kills the worker that it runs for, as often as it is told."""
    note(item["file"], "killer")
    with open(item["file"], encoding="utf-8") as lines:  # noqa: PTH123 - as short as can be
        if lines.read().count("killer") <= item["times"]:
            os.kill(parent(parent(os.getpid())), item["signal"])
            time.sleep(600)
    return "survived"


def square_after(item: dict[str, Any]) -> int:
    """Squares; where it is told to wait, until the file that it notes in is taken away."""
    if "wait" in item and not Path(item["wait"]).with_name("no longer").exists():
        tick({"file": item["wait"]})
    return square(item)


def fail(how: str) -> Any:
    """Fails in the way it is told."""
    if how == "die":
        os._exit(9)
    if how == "memory":
        return len(bytearray(2**31))
    if how == "large":
        return "x" * 3_000_000
    if how == "nan":
        return float("nan")
    meta = {"tile": 7, "password": "hunter22"}
    raise {
        "value": ValueError("no such tile in /home/somebody/tiles"),
        "transient": TransientError("busy, token=abcdef123456", meta=meta),
        "permanent": PermanentError("never", code="address_intel", hint="check_input_and_retry", meta=meta),
        "flaky": Flaky("again"),
        "exit": SystemExit(3),
    }[how]


def length(item: str) -> int:
    """Tells how long a text is, and says so."""
    print(f"{len(item)} letters, password=hunter22")
    return len(item)


def of_main(item: Any) -> Any:
    """Stands for a function of the program that was started."""


def missing(item: Any) -> Any:
    """Stands for a function of a module that only this machine has."""


of_main.__module__ = "__main__"
missing.__module__ = "tests.nowhere"
FUNCTIONS = {
    one.__name__: one for one in (place_of, tick, kill, square_after, fail, length, square, cube, of_main, missing)
}


async def maps(job: Job, function: str, items: list[Any]) -> list[Any]:
    """Maps one of the functions over the items."""
    return await job.map(FUNCTIONS[function], items, step="At {}")


async def clings(job: Job, function: str, items: list[Any]) -> list[Any]:
    """Maps, and does not let itself be cancelled."""
    mapping = asyncio.ensure_future(job.map(FUNCTIONS[function], items))
    while not mapping.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(mapping)
    return mapping.result()


def maps_plainly(job: PlainJob, function: str, items: list[Any]) -> list[Any]:
    """The same from a process."""
    return job.map(FUNCTIONS[function], items, step="At {}")


def chunks_app(*, timeout: float = 60, max_retries: int = 1) -> Langlauf:
    """An application that maps."""
    app = Langlauf()
    for function in (maps, maps_plainly, clings):
        app.analysis(duplicates=True, transient=(Flaky,), timeout=timeout, max_retries=max_retries)(function)
    return app


app = chunks_app()
