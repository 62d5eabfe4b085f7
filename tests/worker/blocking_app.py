"""Analyses that do what they should not: block the event loop, or hold the interpreter lock on it."""

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

from langlauf import Job, Langlauf

app = Langlauf()


def _note(file: str, word: str) -> None:
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME):.3f} {os.getpid()} {word}\n")


def _wait_for(file: Path) -> None:
    """Who submitted the job is to hear that it was accepted, before the loop stands still."""
    while not file.exists():
        time.sleep(0.01)


def _hold_the_lock(seconds: float) -> None:
    """Cannot be interrupted: the signal that would end the call waits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGURG,))
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1_000_000)))


@app.analysis(duplicates=True)
async def block_always(job: Job, how: str) -> None:
    """Blocks in every attempt."""
    if how == "lock":
        _hold_the_lock(600)
    time.sleep(600)  # noqa: ASYNC251


@app.analysis(duplicates=True)
async def wait_for(job: Job, file: str) -> int:
    """Waits for a file, as it should."""
    while not Path(file).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.01)
    return job.attempt


@app.analysis(duplicates=True)
async def block(job: Job, file: str, how: str, lasting: float) -> dict[str, int]:
    """Blocks in its first attempt, and notes every moment in which it still goes on."""
    await asyncio.to_thread(_wait_for, Path(f"{file}.accepted"))
    _note(file, f"start {job.attempt}")
    if job.attempt == 1:
        if how == "lock":
            _hold_the_lock(lasting)
        else:
            until = time.monotonic() + lasting
            while time.monotonic() < until:
                time.sleep(0.05)  # noqa: ASYNC251 - this is what must not be done
                _note(file, "alive")
        _note(file, "end")
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def quick(job: Job) -> str:
    """Does nothing."""
    return "done"
