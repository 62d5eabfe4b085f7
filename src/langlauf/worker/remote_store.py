"""The store of a worker process: calls are sent to the program that started the worker, and executed there.

So only one process writes to the store: ends of attempts, submissions and pending claims share transactions, and the
worker needs neither a driver nor a connection. When the connection to the program breaks, the worker ends, and the
program releases its attempts.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.clock import Clock, monotonic
from langlauf.domain import errors
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
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.outcome import Completed, Released
from langlauf.domain.provenance import CodeVersion, TrailEntry
from langlauf.domain.read_models import JobView, PastRun, ResultView
from langlauf.hints import Hints
from langlauf.worker.attempt_store import AttemptReads
from langlauf.worker.process_protocol import (
    FromWorker,
    MessageConnection,
    StoreCall,
    StoreErrorReply,
    StoreReply,
    ToWorker,
    WithdrawClaim,
)

if TYPE_CHECKING:
    from langlauf.store.protocol import Store

#: In bytes: a larger write is sent by itself, and smaller ones are sent as soon as there are more of them.
_MOST_TOGETHER = LARGE_TEXT // 4
_encode = msgspec.msgpack.Encoder().encode
#: The writes of an attempt, by the name of their class.
_WRITES = {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in get_args(Write)}


class _Verb(NamedTuple):
    """Decoders of the arguments and the result of a call."""

    arguments: msgspec.msgpack.Decoder[Any]
    answer: msgspec.msgpack.Decoder[Any]


def _verb(arguments: Any, answer: Any) -> _Verb:
    return _Verb(msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(answer))


_VERBS = {
    "claim_next": _verb(tuple[ClaimRequest], ClaimBatch),
    "renew": _verb(tuple[list[Lease], float], list[LeaseRenewal]),
    "record": _verb(tuple[Lease, str, msgspec.Raw], WriteResult),
    "record_all": _verb(tuple[list[tuple[Lease, str, msgspec.Raw]]], list[WriteResult | StoreErrorReply]),
    "job": _verb(tuple[str, str], JobView | None),
    "chunk": _verb(tuple[str, str, str], str | None),
    "chunks": _verb(tuple[str, str, list[str]], dict[str, str]),
    "trail": _verb(tuple[str, str], list[TrailEntry]),
    "completed": _verb(tuple[str, str, tuple[Instant, str] | None, int], list[PastRun]),
    "result": _verb(tuple[str, str, bool], ResultView | None),
    "code": _verb(tuple[list[CodeVersion]], None),
    "note": _verb(tuple[WorkerReport], None),
    "forget": _verb(tuple[str], None),
}


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
        self._calls: dict[int, tuple[_Verb, asyncio.Future[Any] | _Writes]] = {}
        #: small writes of this turn of the event loop, which are sent as one call
        self._writes = _Writes()

    def receive(self, reply: StoreReply | StoreErrorReply) -> None:
        """Resolve the call of a reply."""
        verb, waiting = self._calls.pop(reply.number)
        answer = verb.answer.decode(reply.value) if isinstance(reply, StoreReply) else reply
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
        self._calls[number] = (_VERBS[name], waiting)
        return StoreCall(number, name, msgspec.Raw(_encode(arguments)))

    async def claim_next(
        self,
        request: ClaimRequest,
        idle: Callable[[], Coroutine[Any, Any, None]],
        free: Callable[[], int] | None = None,  # noqa: ARG002 - the program counts the ends itself
    ) -> ClaimBatch:
        """Claim jobs; a pending claim is withdrawn when `idle()` returns."""
        future = self._call("claim_next", request)
        idling = asyncio.create_task(idle())
        try:
            either: set[asyncio.Future[Any]] = {idling, future}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not future.done() and self.connection is not None:
                self.connection.send(WithdrawClaim())
            return cast("ClaimBatch", await future)
        finally:
            idling.cancel()

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        """Renew leases."""
        return cast("list[LeaseRenewal]", await self._call("renew", leases, lease_seconds))

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
        """Write for an attempt."""
        if isinstance(write, Partial | Completed) and len(write.payload or "") > LARGE_TEXT:
            return self._record_large(lease, write)
        self._connected()
        encoded = _encode(write)
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
        raw = msgspec.Raw(_encode(write))
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


class StoreServer:
    """The server in the program: executes the calls of one worker process, and knows the leases that it holds."""

    def __init__(self, store: "Store", hints: Hints, *, poll_seconds: float) -> None:
        self._store = store
        self._hints = hints
        self._poll_seconds = poll_seconds
        self.connection: MessageConnection[FromWorker] | None = None
        #: claims of the worker that have not ended
        self.held: dict[Lease, Claim] = {}
        self._worker_id: str | None = None
        #: how many attempts have ended, each of which frees a slot
        self._ends = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        #: a claim for the slots that the last one left, which the worker has not asked for yet
        self._ahead: asyncio.Task[ClaimBatch] | None = None
        self._enough = False
        self._closed = self._withdrawn = self._draining = False

    def receive(self, message: StoreCall | WithdrawClaim) -> None:
        """Execute a call in the background, or withdraw the pending claim."""
        if isinstance(message, WithdrawClaim):
            self._withdraw()
        elif message.verb == "record_all":
            self._record_all(message)
        else:
            self._start(self._execute(message))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drain(self) -> None:
        """Claim nothing any more, because the worker takes no new jobs, and release what was claimed ahead.

        The worker may ask once more before it knows. It would get what was released, and release it again.
        """
        self._draining = True
        self._withdraw()
        self._start(self._release_ahead())

    async def close(self) -> None:
        """Finish the calls of a worker that is gone: what it had sent counts."""
        self._closed = True
        self.drain()
        await asyncio.wait(self._tasks)
        if self._worker_id is not None:
            with contextlib.suppress(StoreError):  # it is then listed without reports for some time
                await self._store.workers.remove(self._worker_id)

    def _withdraw(self) -> None:
        """Let the pending claim return with what it has; a worker has one at a time."""
        self._withdrawn = True
        self._hints.claim_again()

    async def _execute(self, call: StoreCall) -> None:
        verb = _VERBS[call.verb]
        try:
            value = await getattr(self, f"_{call.verb}")(*verb.arguments.decode(call.arguments))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._reply(_error_reply(call.number, error))
        else:
            encoded = await run_in_thread(_encode, value) if _text_length(value) > LARGE_TEXT else _encode(value)
            self._reply(StoreReply(call.number, msgspec.Raw(encoded)))

    def _reply(self, reply: StoreReply | StoreErrorReply) -> None:
        if self.connection is not None:
            self.connection.send(reply)

    async def _claim_next(self, request: ClaimRequest) -> ClaimBatch:
        """Return what was claimed ahead, or claim; then claim ahead for the slots that are left.

        So submissions meet a pending claim also while the worker starts what it got and asks again.
        """
        handed = await self._end_ahead()
        if not handed.claims:
            handed = await self._claim_until(request, lambda: self._withdrawn)
        self._withdrawn = False
        if self._closed:  # the worker does not know of them
            await self._release(handed)
            return ClaimBatch([], handed.asked_at)
        self.held |= {claim.lease: claim for claim in handed.claims}
        left = request.slots - len(handed.claims)
        if handed.claims and left > 0 and not self._draining:
            self._enough = False
            ahead = msgspec.structs.replace(request, slots=left)
            self._ahead = asyncio.create_task(self._claim_until(ahead, lambda: self._enough))
        return handed

    async def _claim_until(self, request: ClaimRequest, over: Callable[[], bool]) -> ClaimBatch:
        """Claim at least once, and until there are jobs or it is over; not at all while the worker drains.

        Attempts that end meanwhile free further slots. Once the worker drains there are none: a claim that still stands
        would get what has just been released.
        """
        ended_before = self._ends

        def free() -> int:
            return 0 if self._draining else request.slots + self._ends - ended_before

        handed = ClaimBatch([], monotonic())
        asked = False
        while not handed.claims and not self._draining and not (asked and over()):
            now = msgspec.structs.replace(request, slots=free())
            handed = await self._store.claim_next(now, lambda: self._hints.wait_for_work(self._poll_seconds), free)
            asked = True
        return handed

    async def _end_ahead(self) -> ClaimBatch:
        """Return what was claimed ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return ClaimBatch([], monotonic())
        self._enough = True
        self._hints.claim_again()
        return await ahead

    async def _release_ahead(self) -> None:
        with contextlib.suppress(StoreError):
            await self._release(await self._end_ahead())

    async def _release(self, handed: ClaimBatch) -> None:
        for claim in handed.claims:
            with contextlib.suppress(StoreError):  # its lease expires
                await self._store.record(claim.lease, Released())

    async def _renew(self, leases: list[Lease], seconds: float) -> list[LeaseRenewal]:
        renewals = await self._store.renew(leases, lease_seconds=seconds)
        for renewal in renewals:
            if not renewal.held:
                self.held.pop(renewal.lease, None)
        return renewals

    async def _record(self, lease: Lease, kind: str, write: msgspec.Raw) -> WriteResult:
        decoded = await run_in_thread(_WRITES[kind].decode, write)
        recorded = await self._store.record(lease, decoded)
        self._note_record(lease, decoded, recorded)
        return recorded

    def _record_all(self, call: StoreCall) -> None:
        """Hand writes to the store without a task of their own: there is at least one for each job."""
        try:
            (encoded,) = _VERBS["record_all"].arguments.decode(call.arguments)
            writes = [(lease, _WRITES[kind].decode(write)) for lease, kind, write in encoded]
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
        self._reply(StoreReply(number, msgspec.Raw(_encode(answers))))

    def _note_record(self, lease: Lease, write: Write, recorded: WriteResult) -> None:
        if not recorded or not isinstance(write, Progress | Partial | Checkpoint):
            self._ends += self.held.pop(lease, None) is not None

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
