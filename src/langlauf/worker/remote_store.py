"""The store of a worker process: calls are sent to the program that started the worker, and executed there.

So only one process writes to the store: ends of attempts, submissions and claims share transactions, and the worker
needs neither a driver nor a connection. The program claims for the worker, and sends it the jobs. When the connection
to the program breaks, the worker ends, and the program releases its attempts.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.clock import Clock
from langlauf.domain import errors
from langlauf.domain.attempt import (
    ClaimBatch,
    ClaimRequest,
    Lease,
    LeaseRenewal,
    Partial,
    Write,
    WriteResult,
)
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.outcome import Completed
from langlauf.domain.provenance import CodeVersion, TrailEntry
from langlauf.domain.read_models import JobView, PastRun, ResultView
from langlauf.worker.attempt_store import AttemptReads
from langlauf.worker.process_protocol import (
    STORE_VERBS,
    AttemptLost,
    ClaimedJobs,
    JobsTaken,
    MessageConnection,
    StoreCall,
    StoreErrorReply,
    StoreReply,
    StoreVerb,
    ToWorker,
    encode,
)

#: In bytes: a larger write is sent by itself, and smaller ones are sent as soon as there are more of them.
_MOST_TOGETHER = LARGE_TEXT // 4


class _Writes:
    """Writes of attempts that are sent as one call; each has a future of its own."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[WriteResult]] = []
        self.arguments: list[tuple[Lease, str, msgspec.Raw]] = []
        self.size = 0

    def add(self, future: asyncio.Future[WriteResult], argument: tuple[Lease, str, msgspec.Raw]) -> None:
        self.futures.append(future)
        self.arguments.append(argument)
        self.size += memoryview(argument[2]).nbytes

    def resolve(self, answer: list[WriteResult | StoreErrorReply] | StoreErrorReply) -> None:
        """Resolve each future with its answer, or with the error of the whole call."""
        answers = answer if isinstance(answer, list) else [answer] * len(self.futures)
        for future, one in zip(self.futures, answers, strict=True):
            _resolve(future, one)


def _resolve(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():  # its caller was canceled; the call was executed all the same
        return
    if isinstance(answer, StoreErrorReply):
        future.set_exception(getattr(errors, answer.error, StoreError)(answer.message))
    else:
        future.set_result(answer)


class RemoteStore:
    """The client in the worker process: sends each call over the connection and awaits its reply."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.workers = self
        self.connection: MessageConnection[ToWorker] | None = None
        self._numbers = itertools.count(1)
        self._calls: dict[int, tuple[StoreVerb, asyncio.Future[Any] | _Writes]] = {}
        #: small writes of this turn of the event loop, which are sent as one call
        self._writes = _Writes()
        self._take: Callable[[ClaimBatch], None] = lambda _: None

    def receive(self, message: StoreReply | StoreErrorReply | ClaimedJobs) -> None:
        """Resolve the call of a reply, or hand claimed jobs to the worker."""
        if isinstance(message, ClaimedJobs):
            self._connected().send(JobsTaken())
            self._take(message.batch)
            return
        verb, waiting = self._calls.pop(message.number)
        answer = verb.answer.decode(message.value) if isinstance(message, StoreReply) else message
        if isinstance(waiting, _Writes):
            waiting.resolve(answer)
        else:
            _resolve(waiting, answer)

    def _call(self, name: str, *arguments: Any) -> asyncio.Future[Any]:
        connection = self._connected()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        connection.send(self._new_call(name, future, arguments))
        return future

    def _connected(self) -> MessageConnection[ToWorker]:
        if self.connection is None:
            raise StoreUnavailable("the program with the store is gone")
        return self.connection

    def _new_call(self, name: str, waiting: "asyncio.Future[Any] | _Writes", arguments: tuple[Any, ...]) -> StoreCall:
        number = next(self._numbers)
        self._calls[number] = (STORE_VERBS[name], waiting)
        return StoreCall(number, name, msgspec.Raw(encode(arguments)))

    def source(
        self, request: ClaimRequest, free: Callable[[], int], take: Callable[[ClaimBatch], None]
    ) -> "RemoteSource":
        """Return what hands a worker the jobs that the program claims for it; the program counts the free slots."""
        del free
        self._take = take
        return RemoteSource(self._call, self._connected().send, request)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        """Renew leases."""
        return cast("list[LeaseRenewal]", await self._call("renew", leases, lease_seconds))

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
        """Write for an attempt."""
        if isinstance(write, Partial | Completed) and len(write.payload or "") > LARGE_TEXT:
            return self._record_large(lease, write)
        self._connected()
        encoded = encode(write)
        if len(encoded) > _MOST_TOGETHER:
            self._send_writes()  # in the order of the calls
            return self._call("record", lease, type(write).__name__, msgspec.Raw(encoded))
        future: asyncio.Future[WriteResult] = asyncio.get_running_loop().create_future()
        if not self._writes.futures:
            asyncio.get_running_loop().call_soon(self._send_writes)
        self._writes.add(future, (lease, type(write).__name__, msgspec.Raw(encoded)))
        if self._writes.size > _MOST_TOGETHER:
            self._send_writes()
        return future

    async def _record_large(self, lease: Lease, write: Partial | Completed) -> WriteResult:
        """Send a large payload as bytes, which the program stores as they come."""
        data = memoryview(await run_in_thread(cast("str", write.payload).encode))
        write = msgspec.structs.replace(write, payload=None, payload_data=data)
        raw = msgspec.Raw(encode(write))
        return cast("WriteResult", await self._call("record", lease, type(write).__name__, raw))

    def _send_writes(self) -> None:
        writes, self._writes = self._writes, _Writes()
        if writes.futures and self.connection is not None:
            self.connection.send_now(self._new_call("record_all", writes, (writes.arguments,)))

    async def save_report(self, report: WorkerReport) -> None:
        """Report that this worker is there."""
        await self._call("note", report)

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        """Store which code this worker runs."""
        await self._call("code", list(codes))

    async def remove(self, worker_id: str) -> None:
        """Report that a worker has stopped."""
        await self._call("forget", worker_id)

    def tenant(self, org_id: str) -> AttemptReads:
        """Return the reads of one org."""
        return _RemoteReads(self._call, org_id)


class RemoteSource:
    """The source of jobs of a worker process: the program claims for it."""

    alive = True

    def __init__(
        self,
        call: Callable[..., asyncio.Future[Any]],
        send: Callable[[AttemptLost], None],
        request: ClaimRequest,
    ) -> None:
        self._call = call
        self._send = send
        self._request = request

    async def start(self) -> None:
        """Let the program claim."""
        await self._call("start_claims", self._request)

    async def stop(self) -> None:
        """Let it claim no more; returns when all jobs have come."""
        await self._call("stop_claims")

    def ended(self, lease: Lease, *, written: bool) -> None:
        """Tell the program of an attempt that it has written no end of: otherwise it knows that the slot is free."""
        if not written:
            self._send(AttemptLost(lease))


class _RemoteReads:
    """Reads of attempts within one org."""

    def __init__(self, call: Callable[..., asyncio.Future[Any]], org_id: str) -> None:
        self._call = call
        self._org_id = org_id

    async def job(self, job_id: str) -> JobView | None:
        return cast("JobView | None", await self._call("job", self._org_id, job_id))

    async def chunk(self, job_id: str, key: str) -> str | None:
        return cast("str | None", await self._call("chunk", self._org_id, job_id, key))

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        return cast("dict[str, str]", await self._call("chunks", self._org_id, job_id, keys))

    async def trail(self, job_id: str) -> list[TrailEntry]:
        return cast("list[TrailEntry]", await self._call("trail", self._org_id, job_id))

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]:
        return cast("list[PastRun]", await self._call("completed", self._org_id, analysis, before, limit))

    async def result(self, result_id: str, *, latest: bool) -> ResultView | None:
        return cast("ResultView | None", await self._call("result", self._org_id, result_id, latest))
