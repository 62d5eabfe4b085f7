"""Analyses that harm whom they can: what a tenant may run who is not to be trusted."""

import asyncio
from typing import Any

from langlauf import Job, Langlauf

app = Langlauf()
#: Reports that are under way at once: they share a transaction, so that a log fills in seconds.
_AT_ONCE = 200


@app.analysis(duplicates=True)
async def echo(job: Job, value: Any = None) -> dict[str, Any]:
    """Returns what it was given: the one analysis that is meant well."""
    return {"value": value, "org": job.org_id}


@app.analysis(duplicates=True)
async def nap(_: Job, seconds: float) -> float:
    """Takes its time, or all of its time limit."""
    await asyncio.sleep(seconds)
    return seconds


@app.analysis(duplicates=True)
async def cyclic(_: Job) -> dict[str, Any]:
    """A result that no encoder comes to the end of."""
    found: dict[str, Any] = {}
    found["a"] = found
    return found


@app.analysis(duplicates=True)
async def large(_: Job, size: int) -> str:
    """As much as a result may be."""
    return "x" * size


@app.analysis(duplicates=True)
async def chatty(job: Job, count: int) -> int:
    """Reports so many times, every time something new."""
    for start in range(0, count, _AT_ONCE):
        steps = range(start, min(count, start + _AT_ONCE))
        await asyncio.gather(*(job.progress(step=f"step {number}") for number in steps))
    return count
