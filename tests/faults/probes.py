"""The application under test: analyses that say in all they write which attempt they are, and note it in the ledger."""

import asyncio
import time
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf
from langlauf.domain.errors import StaleAttempt
from tests.faults.ledger import END, REFUSED, START, UNHEARD, note

app = Langlauf()


@app.analysis(duplicates=True)
async def work(job: Job, seconds: float = 0.0, every: float = 0.1, gate: str | None = None) -> dict[str, int]:
    """Writes steps and snapshots for so long, or until the file of its gate exists."""
    note(START, job.job_id, job.attempt)
    end = time.monotonic() + seconds
    turn = 0
    while not Path(gate).exists() if gate else time.monotonic() < end:  # noqa: ASYNC240 - a look at a name is quick
        turn += 1
        await _write(job, turn)
        await asyncio.sleep(every)
    note(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def nap(job: Job, seconds: float) -> dict[str, int]:
    """Does nothing for so long."""
    await asyncio.sleep(seconds)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def deaf(job: Job, gate: str, every: float = 0.05) -> dict[str, int]:
    """Does not hear that it is to stop: goes on writing until the file of its gate exists, refused or not."""
    note(START, job.job_id, job.attempt)
    turn = 0
    while not Path(gate).exists():  # noqa: ASYNC240
        turn += 1
        try:
            await _write(job, turn)
            await asyncio.sleep(every)
        except asyncio.CancelledError:
            note(UNHEARD, job.job_id, job.attempt)
        except StaleAttempt:
            await _sleep_deaf(every)
    note(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


async def _sleep_deaf(seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        return


async def _write(job: Job, turn: int) -> None:
    """A step or a snapshot that names its attempt, in turns; a refusal is noted and goes on."""
    payload: dict[str, Any] = {"attempt": job.attempt}
    try:
        if turn % 2:
            await job.partial(payload, summary=payload)
        else:
            await job.progress(step=f"attempt {job.attempt}")
    except StaleAttempt:
        note(REFUSED, job.job_id, job.attempt)
        raise
