"""The store of worker processes, in the program: executes their calls, and claims for them."""

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.domain.attempt import (
    Checkpoint,
    Claim,
    ClaimBatch,
    ClaimRequest,
    Lease,
    LeaseRenewal,
    Partial,
    Progress,
    Write,
    WriteResult,
)
from langlauf.domain.errors import StoreError
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.outcome import Released
from langlauf.domain.provenance import CodeVersion, TrailEntry
from langlauf.domain.read_models import JobView, PastRun, ResultView
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.worker.claimer import Claimer
from langlauf.worker.process_protocol import (
    STORE_VERBS,
    WRITE_DECODERS,
    AttemptLost,
    ClaimedJobs,
    FromWorker,
    JobsTaken,
    MessageConnection,
    StoreCall,
    StoreErrorReply,
    StoreReply,
    encode,
)

#: Messages with jobs under way to a worker: the next is claimed while it starts the jobs of one.
_MOST_UNTAKEN = 2


class StoreServer:
    """Executes the calls of one worker process, claims for it, and knows the leases that it holds."""

    def __init__(self, store: Store, hints: Hints, *, poll_seconds: float) -> None:
        self._store = store
        self._hints = hints
        self._poll_seconds = poll_seconds
        self.connection: MessageConnection[FromWorker] | None = None
        #: claims of the worker that have not ended
        self.held: dict[Lease, Claim] = {}
        self._worker_id: str | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._claimer: Claimer | None = None
        self._slots = 0
        #: messages with jobs that the worker has not received yet
        self._untaken = 0
        self._taken = asyncio.Event()
        self._closed = self._draining = False

    def receive(self, message: StoreCall | JobsTaken | AttemptLost) -> None:
        """Execute a call in the background, or note that jobs have come to the worker, or that a slot is free."""
        if isinstance(message, JobsTaken):
            self._untaken -= 1
            self._taken.set()
            self._hints.claim_again()
        elif isinstance(message, AttemptLost):
            self._free(message.lease)
        elif message.verb == "record_all":
            self._record_all(message)
        else:
            self._start(self._execute(message))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> None:
        """Claim nothing any more, because the worker takes no new jobs."""
        self._draining = True
        if self._claimer is not None:
            self._start(self._claimer.stop())

    async def close(self) -> None:
        """Finish the calls of a worker that is gone: what it had sent counts."""
        self._closed = True
        self._taken.set()
        self.drain()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._worker_id is not None:
            with contextlib.suppress(StoreError):  # it is then listed without reports for some time
                await self._store.workers.remove(self._worker_id)

    async def _execute(self, call: StoreCall) -> None:
        verb = STORE_VERBS[call.verb]
        try:
            value = await getattr(self, f"_{call.verb}")(*verb.arguments.decode(call.arguments))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._reply(_error_reply(call.number, error))
        else:
            encoded = await run_in_thread(encode, value) if _text_length(value) > LARGE_TEXT else encode(value)
            self._reply(StoreReply(call.number, msgspec.Raw(encoded)))

    def _reply(self, reply: StoreReply | StoreErrorReply) -> None:
        if self.connection is not None:
            self.connection.send(reply)

    async def _start_claims(self, request: ClaimRequest) -> None:
        """Claim jobs for the worker whenever it has free slots."""
        self._slots = request.slots
        self._claimer = Claimer(
            self._store, self._hints, self._poll_seconds, request, self._free_slots, self._hand_over
        )
        if not self._draining:
            await self._claimer.start()

    async def _stop_claims(self) -> None:
        """Return when the worker has got all that was claimed for it."""
        self._draining = True
        if self._claimer is not None:
            await self._claimer.stop()
        while self._untaken and not self._closed:
            self._taken.clear()
            await self._taken.wait()

    def _free_slots(self) -> int:
        """No slot is free while messages with jobs pile up: the worker's event loop may be blocked."""
        if self._draining or self._untaken >= _MOST_UNTAKEN:
            return 0
        return self._slots - len(self.held)

    def _free(self, lease: Lease) -> None:
        if self.held.pop(lease, None) is not None:
            self._hints.claim_again()

    def _hand_over(self, handed: ClaimBatch) -> None:
        """Send claimed jobs to the worker; if it is gone, it does not know of them."""
        if self._closed or self.connection is None:
            self._start(self._release(handed))
            return
        self.held |= {claim.lease: claim for claim in handed.claims}
        self._untaken += 1
        self.connection.send_now(ClaimedJobs(handed))

    async def _release(self, handed: ClaimBatch) -> None:
        for claim in handed.claims:
            with contextlib.suppress(StoreError):  # its lease expires
                await self._store.record(claim.lease, Released())

    async def _renew(self, leases: list[Lease], seconds: float) -> list[LeaseRenewal]:
        renewals = await self._store.renew(leases, lease_seconds=seconds)
        for renewal in renewals:
            if not renewal.held:
                self._free(renewal.lease)
        return renewals

    async def _record(self, lease: Lease, kind: str, write: msgspec.Raw) -> WriteResult:
        decoded = await run_in_thread(WRITE_DECODERS[kind].decode, write)
        recorded = await self._store.record(lease, decoded)
        self._note_record(lease, decoded, recorded)
        return recorded

    def _record_all(self, call: StoreCall) -> None:
        """Hand writes to the store without a task of their own: there is at least one for each job."""
        try:
            (encoded,) = STORE_VERBS["record_all"].arguments.decode(call.arguments)
            writes = [(lease, WRITE_DECODERS[kind].decode(write)) for lease, kind, write in encoded]
            recording = asyncio.ensure_future(self._store.record_all(writes))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._reply(_error_reply(call.number, error))
            return
        self._tasks.add(recording)
        recording.add_done_callback(partial(self._recorded, call.number, writes))

    def _recorded(
        self, number: int, writes: list[tuple[Lease, Write]], recording: asyncio.Future[list[WriteResult | Exception]]
    ) -> None:
        self._tasks.discard(recording)
        error = asyncio.CancelledError() if recording.cancelled() else recording.exception()
        if error is not None:
            self._reply(_error_reply(number, error))
            return
        answers: list[WriteResult | StoreErrorReply] = []
        for (lease, write), answer in zip(writes, recording.result(), strict=True):
            if isinstance(answer, WriteResult):
                self._note_record(lease, write, answer)
                answers.append(answer)
            else:
                answers.append(_error_reply(number, answer))
        self._reply(StoreReply(number, msgspec.Raw(encode(answers))))

    def _note_record(self, lease: Lease, write: Write, recorded: WriteResult) -> None:
        if not recorded or not isinstance(write, Progress | Partial | Checkpoint):
            self._free(lease)

    async def _job(self, org_id: str, job_id: str) -> JobView | None:
        return await self._store.tenant(org_id).job(job_id)

    async def _chunk(self, org_id: str, job_id: str, key: str) -> str | None:
        return await self._store.tenant(org_id).chunk(job_id, key)

    async def _chunks(self, org_id: str, job_id: str, keys: list[str]) -> dict[str, str]:
        return await self._store.tenant(org_id).chunks(job_id, keys)

    async def _trail(self, org_id: str, job_id: str) -> list[TrailEntry]:
        return await self._store.tenant(org_id).trail(job_id)

    async def _completed(
        self, org_id: str, analysis: str, before: tuple[Instant, str] | None, limit: int
    ) -> list[PastRun]:
        return await self._store.tenant(org_id).completed(analysis, before=before, limit=limit)

    async def _result(self, org_id: str, result_id: str, latest: bool) -> ResultView | None:
        return await self._store.tenant(org_id).result(result_id, latest=latest)

    async def _note(self, report: WorkerReport) -> None:
        self._worker_id = report.worker_id
        if report.stopping:  # also where the worker got a signal by itself
            self.drain()
        await self._store.workers.save_report(report)

    async def _code(self, codes: list[CodeVersion]) -> None:
        await self._store.workers.save_codes(codes)

    async def _forget(self, worker_id: str) -> None:
        self._worker_id = None
        await self._store.workers.remove(worker_id)


def _text_length(value: Any) -> int:
    """Return about how large a result is, where it can be large."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(map(len, value.values()))
        case ResultView(delivered=delivered):
            return len(delivered.payload or "")
    return 0


def _error_reply(number: int, error: BaseException) -> StoreErrorReply:
    known = error if isinstance(error, StoreError) else StoreError(f"{type(error).__name__}: {error}")
    return StoreErrorReply(number, type(known).__name__, str(known))
