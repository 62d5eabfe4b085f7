"""The one function that a Dask cluster is asked to run. It is sent by its name, with bytes; nothing else is sent."""

from langlauf.domain.outcome import Failure
from langlauf.worker.dask.station import Station
from langlauf.worker.dask.wire import UnknownForm, read_call, write
from langlauf.worker.failing import failure_of
from langlauf.worker.processes.wire import Broke


async def run_chunk(call: bytes) -> bytes:
    """Computes one chunk in a process beside this Dask worker, and answers however it ended. It does not raise."""
    try:
        known = read_call(call)
    except UnknownForm:
        return write(Broke(failure=_other_version()))
    try:
        return write(await (await Station.here()).compute(known))
    except Exception as error:  # noqa: BLE001 - an exception would travel as a pickle; a failure is JSON
        return write(Broke(failure=failure_of(error, ())))


def _other_version() -> Failure:
    message = "A Dask worker has another version of langlauf than the worker that asks: install the same one there."
    return Failure(code="internal", message=message, transient=False)
