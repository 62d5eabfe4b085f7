"""An application with analyses that are hard to stop, each in its own way."""

import asyncio
import contextlib
import time

from langlauf import Job, Langlauf

app = Langlauf()
_LONG = 600.0


@app.analysis
async def blocking(job: Job) -> None:
    """Block the event loop of its worker."""
    await job.progress(1, "blocking")
    time.sleep(_LONG)  # noqa: ASYNC251 - that it blocks is the point


@app.analysis
async def threaded(job: Job) -> None:
    """Leave a thread behind that runs for long."""
    await job.progress(1, "in a thread")
    await asyncio.to_thread(time.sleep, _LONG)


@app.analysis
async def deaf(job: Job) -> None:
    """Ignore the cancel."""
    await job.progress(1, "deaf")
    while True:
        try:
            await asyncio.sleep(_LONG)
        except asyncio.CancelledError:
            continue


@app.analysis
async def insistent(job: Job) -> None:
    """Ignore the cancel and refused writes."""
    await job.progress(1, "insistent")
    while True:
        with contextlib.suppress(BaseException):
            await job.progress(1)
