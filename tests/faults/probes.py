"""The application under test: analyses that write their attempt into all they report and into the ledger."""

import asyncio
from pathlib import Path
from typing import Any

from langlauf import Job, Langlauf
from langlauf.domain.errors import StaleAttempt
from tests.faults.ledger import COMPUTED, END, KEPT, REFUSED, START, STOPPED, UNHEARD, append_line

app = Langlauf()
_CHUNK_SECONDS = 0.1


@app.analysis(duplicates=True)
async def work(job: Job, seconds: float) -> dict[str, int]:
    """Run for a while in stored chunks, with a step or a snapshot after each."""
    append_line(START, job.job_id, job.attempt)
    count = max(1, round(seconds / _CHUNK_SECONDS))
    for number in range(1, count + 1):
        await job.checkpoint(f"chunk-{number}", _chunk, job, number, seconds / count)
        append_line(KEPT, job.job_id, job.attempt, number)
        await _write(job, number)
    append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


async def _chunk(job: Job, number: int, seconds: float) -> int:
    append_line(COMPUTED, job.job_id, job.attempt, number)
    await asyncio.sleep(seconds)
    return number


@app.analysis(duplicates=True)
async def gated(job: Job, gate: str, every: float = 0.05) -> dict[str, int]:
    """Report steps and snapshots until the file of its gate exists."""
    append_line(START, job.job_id, job.attempt)
    turn = 0
    try:
        while not Path(gate).exists():  # noqa: ASYNC240 - a look at a name is quick
            turn += 1
            await _write(job, turn)
            await asyncio.sleep(every)
    except asyncio.CancelledError:
        append_line(STOPPED, job.job_id, job.attempt)
        raise
    append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def nap(job: Job, seconds: float) -> dict[str, int]:
    """Sleep for a while."""
    await asyncio.sleep(seconds)
    return {"attempt": job.attempt}


@app.analysis(duplicates=True)
async def deaf(job: Job, gate: str, every: float = 0.05) -> dict[str, int]:
    """Ignore the cancel: write until the file of its gate exists, refused or not."""
    append_line(START, job.job_id, job.attempt)
    turn = 0
    while not Path(gate).exists():  # noqa: ASYNC240
        turn += 1
        try:
            await _write(job, turn)
            await asyncio.sleep(every)
        except asyncio.CancelledError:
            append_line(UNHEARD, job.job_id, job.attempt)
        except StaleAttempt:
            await _sleep_deaf(every)
    append_line(END, job.job_id, job.attempt)
    return {"attempt": job.attempt}


async def _sleep_deaf(seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        return


async def _write(job: Job, turn: int) -> None:
    """Write a step or a snapshot that names the attempt, alternating; record a refusal and continue."""
    payload: dict[str, Any] = {"attempt": job.attempt}
    try:
        if turn % 2:
            await job.partial(payload, summary=payload)
        else:
            await job.progress(step=f"attempt {job.attempt}")
    except StaleAttempt:
        append_line(REFUSED, job.job_id, job.attempt)
        raise
