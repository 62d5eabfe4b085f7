"""An application with analyses that are hard to stop, each in its own way."""

import asyncio
import contextlib
import time

from langlauf import Job, Langlauf

app = Langlauf()
_LONG = 600.0


@app.analysis
async def blocking(job: Job) -> None:
    """Holds up the event loop of its worker."""
    await job.progress(1, "blocking")
    time.sleep(_LONG)  # noqa: ASYNC251 - that it blocks is the point


@app.analysis
async def threaded(job: Job) -> None:
    """Leaves a thread behind that goes on for long."""
    await job.progress(1, "in a thread")
    await asyncio.to_thread(time.sleep, _LONG)


@app.analysis
async def deaf(job: Job) -> None:
    """Does not end when it is canceled."""
    await job.progress(1, "deaf")
    while True:
        try:
            await asyncio.sleep(_LONG)
        except asyncio.CancelledError:
            continue


@app.analysis
async def insistent(job: Job) -> None:
    """Neither ends when it is canceled nor takes a refusal."""
    await job.progress(1, "insistent")
    while True:
        with contextlib.suppress(BaseException):
            await job.progress(1)
