"""The one function that a Dask cluster is asked to run: by its name, with bytes, and for bytes."""

import asyncio
from typing import Any

from distributed import Worker, get_worker

from langlauf.domain.outcome import Failure
from langlauf.worker.dask.chunk_server import Station
from langlauf.worker.dask.wire import Answer, UnknownForm, read_call, write
from langlauf.worker.failure import failure_of
from langlauf.worker.processes.child_protocol import Broke


def run_chunk(call: bytes) -> bytes:
    """Computes one chunk in a process beside this Dask worker, and answers however it ended. It does not raise.

    It takes one of the worker's threads for as long as the chunk takes, for that is what Dask counts.
    """
    worker = get_worker()
    loop: Any = worker.loop
    return write(asyncio.run_coroutine_threadsafe(_answer_to(call, worker), loop.asyncio_loop).result())


async def _answer_to(call: bytes, worker: Worker) -> Answer:
    """The same on the worker's event loop."""
    try:
        return await (await Station.of(worker)).compute(read_call(call))
    except UnknownForm:
        return Broke(failure=_OTHER_VERSION)
    except Exception as error:  # noqa: BLE001 - an exception would travel as a pickle; a failure is JSON
        return Broke(failure=failure_of(error, ()))


_OTHER_VERSION = Failure(
    code="internal",
    message="A Dask worker has another version of langlauf than the worker that asks: install the same one there.",
    transient=False,
)
