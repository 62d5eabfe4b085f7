"""Langlauf: a no-op that stores its result alone, as the peers do. Served by `langlauf serve langlauf_stack:app`."""

import asyncio

from langlauf import Job, Langlauf

app = Langlauf()


@app.analysis(duplicates=True, timeout=60)
async def noop(job: Job, task: str, payload: dict[str, str]) -> int:
    """Do nothing."""
    return 1


@app.analysis(timeout=3_600)
async def waiting(job: Job) -> int:
    """Wait until it is canceled or the server stops."""
    await asyncio.sleep(3_600)
    return 1
