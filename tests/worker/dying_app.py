"""An application with analyses that take their worker process along, and some that are beside them."""

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

from langlauf import Job, Langlauf, PlainJob

app = Langlauf()
#: With a function that no other process would find under its name.
lost = Langlauf()


@app.analysis(duplicates=True)
async def done(job: Job) -> int:
    """Does nothing."""
    return job.attempt


def _priority() -> list[int]:
    """The one of this process, and that of its session where Linux schedules by sessions.

    For an ordinary user only the first: other tests may have used up what the system lets one set in a second.
    """
    group = Path("/proc/self/autogroup")
    own = os.getpriority(os.PRIO_PROCESS, 0)
    known = group.exists() and os.geteuid() == 0
    return [own, int(group.read_text("ascii").split()[-1]) if known else own]


@app.analysis(duplicates=True)
async def priority_of_worker(job: Job) -> list[int]:
    """Tells how much its worker gives way."""
    return _priority()


@app.analysis(duplicates=True)
def priority_of_process(job: PlainJob) -> list[int]:
    """Tells how much its process gives way."""
    return _priority()


@app.analysis(duplicates=True)
async def wait_for(job: Job, file: str) -> int:
    """Waits for a file, without being on the loop."""
    while not await asyncio.to_thread(Path(file).exists):  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.05)
    return job.attempt


@app.analysis(duplicates=True)
async def die(job: Job, how: str) -> None:
    """Ends its worker."""
    if how == "exit":
        os._exit(7)
    ctypes.string_at(0)


@app.analysis(duplicates=True)
async def hold_lock(job: Job, file: str) -> None:
    """Holds the interpreter lock for good, deaf to what would interrupt it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGURG,))
    Path(file).touch()  # noqa: ASYNC240
    ctypes.PyDLL(None).usleep(600_000_000)


@app.analysis(duplicates=True)
def plain_sleep(job: PlainJob, file: str) -> None:
    """Says which process it is in, and stays there."""
    Path(f"{file}.new").write_text(str(os.getpid()), "utf-8")
    Path(f"{file}.new").rename(file)
    time.sleep(600)


@lost.analysis(name="gone")
def _gone(job: PlainJob) -> None:
    """Is not under its name any more."""


del _gone
