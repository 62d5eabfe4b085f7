"""Plain functions under test, in processes of their own, and coroutines that block the event loop."""

import asyncio
import ctypes
import signal
import time
from pathlib import Path

from langlauf import Job, Langlauf, PlainJob
from tests.faults.ledger import END, START, append_line, append_start

app = Langlauf()


def _hold_the_lock(seconds: float) -> None:
    """Hold the interpreter lock: no other thread runs, and no signal ends the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGURG,))
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1_000_000)))


@app.analysis(duplicates=True)
def spin(job: PlainJob, seconds: float) -> dict[str, int]:
    """Hold the interpreter lock all the time."""
    append_line(START, job.job_id, job.attempt)
    _hold_the_lock(seconds)
    append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
def grind(job: PlainJob, seconds: float) -> dict[str, int]:
    """Compute for a while, with snapshots."""
    append_line(START, job.job_id, job.attempt)
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        turn += 1
        payload = {"attempt": job.attempt}
        if turn % 2:
            job.partial(payload, summary=payload)
        else:
            job.progress(step=f"attempt {job.attempt}")
        time.sleep(0.05)
    append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
def nothing_plain(job: PlainJob) -> None:
    """Do nothing, in a process."""


@app.analysis(duplicates=True)
async def nothing(job: Job) -> None:
    """Do nothing, on the event loop."""


@app.analysis(duplicates=True)
async def block(job: Job, how: str, seconds: float) -> dict[str, int]:
    """Block the event loop in the first attempt, with or without the interpreter lock."""
    append_start(job.job_id, job.attempt)
    if job.attempt == 1:
        if how == "lock":
            _hold_the_lock(seconds)
        elif how == "sleep":
            time.sleep(seconds)  # noqa: ASYNC251 - this is what must not be done
        append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def stay(job: Job, gate: str) -> dict[str, int]:
    """Wait on the same loop until the file of its gate exists."""
    append_start(job.job_id, job.attempt)
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.05)
    return {"attempt": job.attempt}
