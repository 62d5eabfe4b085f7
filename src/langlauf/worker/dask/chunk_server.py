"""What Langlauf has beside each Dask worker: a keeper, warm processes, and an ear for tasks that are no longer wanted.

A Dask worker cannot stop a task that runs, so no function of an application runs in it. It runs in a process of its
own, as it does on a worker of Langlauf, and that can be ended.
"""

import asyncio
import contextlib
import os
import sys
from typing import Any

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from langlauf.settings import BY_NAME, variables
from langlauf.telemetry.log import ensure_log_handler
from langlauf.worker.dask.heartbeat import Lease
from langlauf.worker.dask.wire import Answer, Call, Died
from langlauf.worker.processes.child_protocol import Begin, Broke, Returned, WasStale
from langlauf.worker.processes.pool import Pool, ProcessDied
from langlauf.worker.processes.supervisor import Keeper

_NAME = "langlauf"
#: A worker that gave no sign for so long is forgotten: nothing of it can be waiting any more.
_REMEMBERED_SECONDS = 3_600.0
_UNWANTED = Died("nobody waits for it any more", own=False)
_SILENT = Died("the worker that asked for it gave no sign of life", own=False)


class Station(WorkerPlugin):
    """As a plugin it hears what becomes of the worker's tasks, and when the worker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # What analyses may see there is up to the one who runs the Dask worker.
        self._keeper = Keeper(variables(os.environ.get(BY_NAME["child_env"].environment, "")))
        self._pools: dict[int | None, Pool] = {}
        self._leases: dict[str, Lease] = {}
        #: by task: done once nobody wants it any more
        self._unwanted: dict[str, asyncio.Future[None]] = {}

    @classmethod
    async def of(cls, worker: Worker) -> "Station":
        """The station of a Dask worker; it is set up with the first chunk."""
        found = worker.plugins.get(_NAME)
        if not isinstance(found, cls):
            ensure_log_handler()
            found = cls(worker)
            await worker.plugin_add(plugin=found, name=_NAME)
        return found

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """The scheduler has let go of a task that runs here: the client did, or is gone."""
        unwanted = self._unwanted.get(key)
        if finish in ("released", "forgotten") and unwanted is not None and not unwanted.done():
            unwanted.set_result(None)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """The Dask worker closes: nothing of it goes on."""
        for pool in self._pools.values():
            await pool.close()
        await self._keeper.close()

    async def compute(self, call: Call) -> Answer:
        """Runs the chunk for as long as somebody wants it."""
        task = self._worker.state.tasks.get(call.task)
        if task is None or task.state == "cancelled":
            return _UNWANTED
        unwanted = self._unwanted[call.task] = asyncio.get_running_loop().create_future()
        work = asyncio.create_task(self._run(call), name=f"langlauf chunk {call.task}")
        either: set[asyncio.Future[Any]] = {work, unwanted}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else _UNWANTED
        finally:
            del self._unwanted[call.task]
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})

    async def _run(self, call: Call) -> Answer:
        lease = self._lease(call)
        with lease.watched():  # also while a process is started, which may take its time
            if not await lease.holds():
                return _SILENT
            lapses = lease.lapses
            try:
                async with self._pool(call.memory).process(call.facts) as process:
                    with lease.holding(process.kept):
                        await process.send(call.chunk)
                        end = await process.hear()
                        process.reusable = getattr(end, "reusable", False)
            except ProcessDied as died:
                in_time = lease.left > 0 and lease.lapses == lapses
                return Died(str(died), died.own) if in_time else _SILENT
        if isinstance(end, Returned | Broke | WasStale):
            return end
        raise TypeError(f"a chunk ended with {type(end).__name__}")

    def _pool(self, memory: int | None) -> Pool:
        """Processes are started when they are wanted, and stay for a while."""
        if memory not in self._pools:
            begin = Begin(path=list(sys.path), main_file=None, main_module=None, modules=[], memory=memory)
            self._pools[memory] = Pool(self._keeper, begin, warm=0, most=self._worker.state.nthreads)
        return self._pools[memory]

    def _lease(self, call: Call) -> Lease:
        if call.lease not in self._leases:
            self._leases = {name: lease for name, lease in self._leases.items() if lease.left > -_REMEMBERED_SECONDS}

            async def read(patience: float) -> int:
                scheduler: Any = self._worker.scheduler
                found = await scheduler.variable_get(name=call.lease, client=self._worker.id, timeout=patience)
                return int(found["value"])

            self._leases[call.lease] = Lease(read, call.lease_seconds, self._keeper)
        return self._leases[call.lease]
