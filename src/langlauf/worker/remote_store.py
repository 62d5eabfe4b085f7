"""The store as a worker process sees it: its verbs travel to the program that started the worker, and are done there.

So one process writes to the store. The ends of attempts, submissions and the claims that stand for them meet in one
transaction, and the worker needs neither a driver nor a connection. A line that breaks is a lost reply: the worker
ends, and the program gives back what the worker held.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.clock import Clock
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
from langlauf.domain.outcome import Released
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

_encode = msgspec.msgpack.Encoder().encode
#: What an attempt may write, by the name under which it travels.
_WRITES = {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in get_args(Write)}


class _Verb(NamedTuple):
    """How arguments and answer are read at the other end."""

    arguments: msgspec.msgpack.Decoder[Any]
    answer: msgspec.msgpack.Decoder[Any]


def _verb(arguments: Any, answer: Any) -> _Verb:
    return _Verb(msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(answer))


_VERBS = {
    "claim_next": _verb(tuple[ClaimRequest], ClaimBatch),
    "renew": _verb(tuple[list[Lease], float], list[LeaseRenewal]),
    "record": _verb(tuple[Lease, str, msgspec.Raw], WriteResult),
    "job": _verb(tuple[str, str], JobView | None),
    "chunk": _verb(tuple[str, str, str], str | None),
    "chunks": _verb(tuple[str, str, list[str]], dict[str, str]),
    "completed": _verb(tuple[str, str, tuple[Instant, str] | None, int], list[PastRun]),
    "result": _verb(tuple[str, str, bool], ResultView | None),
    "note": _verb(tuple[WorkerReport], None),
    "forget": _verb(tuple[str], None),
}


class RemoteStore:
    """The worker's end: what is asked of the store goes over the line, and the answer comes back."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.workers = self
        self.connection: MessageConnection[ToWorker] | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[_Verb, asyncio.Future[Any]]] = {}

    def heard(self, reply: StoreReply | StoreErrorReply) -> None:
        """An answer has come."""
        verb, future = self._asked.pop(reply.number)
        if future.done():  # its caller went away; what was asked for was done all the same
            return
        if isinstance(reply, StoreReply):
            future.set_result(verb.answer.decode(reply.value))
        else:
            future.set_exception(getattr(errors, reply.error, StoreError)(reply.message))

    def _ask(self, name: str, *arguments: Any) -> asyncio.Future[Any]:
        if self.connection is None:
            raise StoreUnavailable("the program that holds the store is gone")
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = (_VERBS[name], future)
        self.connection.tell(StoreCall(number, name, msgspec.Raw(_encode(arguments))))
        return future

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> ClaimBatch:
        """Claims what may start; a claim that stands is withdrawn when `idle()` is over."""
        future = self._ask("claim_next", request)
        idling = asyncio.create_task(idle())
        try:
            either: set[asyncio.Future[Any]] = {idling, future}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not future.done() and self.connection is not None:
                self.connection.tell(WithdrawClaim())
            return cast("ClaimBatch", await future)
        finally:
            idling.cancel()

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        """Extends leases."""
        return cast("list[LeaseRenewal]", await self._ask("renew", leases, lease_seconds))

    async def record(self, lease: Lease, write: Write) -> WriteResult:
        """Writes for an attempt."""
        raw = msgspec.Raw(_encode(write))
        return cast("WriteResult", await self._ask("record", lease, type(write).__name__, raw))

    async def note(self, report: WorkerReport) -> None:
        """Tells that this worker is there."""
        await self._ask("note", report)

    async def forget(self, worker_id: str) -> None:
        """Tells that it has stopped."""
        await self._ask("forget", worker_id)

    def tenant(self, org_id: str) -> AttemptReads:
        """The reads of one org."""
        return _RemoteReads(self._ask, org_id)


class _RemoteReads:
    """What attempts of one org read."""

    def __init__(self, ask: Callable[..., asyncio.Future[Any]], org_id: str) -> None:
        self._ask = ask
        self._org_id = org_id

    async def job(self, job_id: str) -> JobView | None:
        return cast("JobView | None", await self._ask("job", self._org_id, job_id))

    async def chunk(self, job_id: str, key: str) -> str | None:
        return cast("str | None", await self._ask("chunk", self._org_id, job_id, key))

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        return cast("dict[str, str]", await self._ask("chunks", self._org_id, job_id, keys))

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]:
        return cast("list[PastRun]", await self._ask("completed", self._org_id, analysis, before, limit))

    async def result(self, result_id: str, *, latest: bool) -> ResultView | None:
        return cast("ResultView | None", await self._ask("result", self._org_id, result_id, latest))


def _letters(value: Any) -> int:
    """About how large an answer is, where it can be large."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(map(len, value.values()))
        case ResultView(delivered=delivered):
            return len(delivered.payload or "")
    return 0


class StoreServer:
    """The program's end: does what one worker process asks for, and knows which leases that process holds."""

    def __init__(self, store: "Store", hints: Hints, *, poll_seconds: float) -> None:
        self._store = store
        self._hints = hints
        self._poll_seconds = poll_seconds
        self.connection: MessageConnection[FromWorker] | None = None
        #: what the worker was given and has not ended
        self.held: dict[Lease, Claim] = {}
        self._worker_id: str | None = None
        self._doing: set[asyncio.Task[None]] = set()
        self._closed = self._withdrawn = False

    def heard(self, message: StoreCall | WithdrawClaim) -> None:
        """The worker asks for something, or no longer waits for it."""
        if isinstance(message, WithdrawClaim):
            self._withdraw()
            return
        task = asyncio.create_task(self._do(message))
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)

    async def close(self) -> None:
        """The worker is gone. Returns when nothing of it is under way any more: what it had sent counts."""
        self._closed = True
        self._withdraw()
        if self._doing:
            await asyncio.wait(self._doing)
        if self._worker_id is not None:
            with contextlib.suppress(StoreError):  # then it is shown as silent for a while
                await self._store.workers.forget(self._worker_id)

    def _withdraw(self) -> None:
        """Lets the claim that stands come back with what it has; one worker has one at a time."""
        self._withdrawn = True
        self._hints.work()

    async def _do(self, question: StoreCall) -> None:
        verb = _VERBS[question.verb]
        try:
            value = await getattr(self, f"_{question.verb}")(*verb.arguments.decode(question.arguments))
        except Exception as error:  # noqa: BLE001 - the answer to the caller
            known = error if isinstance(error, StoreError) else StoreError(f"{type(error).__name__}: {error}")
            self._tell(StoreErrorReply(question.number, type(known).__name__, str(known)))
        else:
            encoded = await run_in_thread(_encode, value) if _letters(value) > LARGE_TEXT else _encode(value)
            self._tell(StoreReply(question.number, msgspec.Raw(encoded)))

    def _tell(self, reply: StoreReply | StoreErrorReply) -> None:
        if self.connection is not None:
            self.connection.tell(reply)

    async def _claim_next(self, request: ClaimRequest) -> ClaimBatch:
        handed = await self._claim_once(request)
        while not handed.claims and not self._withdrawn:
            handed = await self._claim_once(request)
        self._withdrawn = False
        if self._closed:  # the worker never heard of them
            for claim in handed.claims:
                await self._store.record(claim.lease, Released())
            return ClaimBatch([], handed.asked_at)
        self.held |= {claim.lease: claim for claim in handed.claims}
        return handed

    async def _claim_once(self, request: ClaimRequest) -> ClaimBatch:
        return await self._store.claim_next(request, lambda: self._hints.wait_for_work(self._poll_seconds))

    async def _renew(self, leases: list[Lease], seconds: float) -> list[LeaseRenewal]:
        renewals = await self._store.renew(leases, lease_seconds=seconds)
        for renewal in renewals:
            if not renewal.held:
                self.held.pop(renewal.lease, None)
        return renewals

    async def _record(self, lease: Lease, kind: str, write: msgspec.Raw) -> WriteResult:
        decode = _WRITES[kind].decode
        decoded = await run_in_thread(decode, write) if memoryview(write).nbytes > LARGE_TEXT else decode(write)
        recorded = await self._store.record(lease, decoded)
        if not recorded or not isinstance(decoded, Progress | Partial | Checkpoint):
            self.held.pop(lease, None)
        return recorded

    async def _job(self, org_id: str, job_id: str) -> JobView | None:
        return await self._store.tenant(org_id).job(job_id)

    async def _chunk(self, org_id: str, job_id: str, key: str) -> str | None:
        return await self._store.tenant(org_id).chunk(job_id, key)

    async def _chunks(self, org_id: str, job_id: str, keys: list[str]) -> dict[str, str]:
        return await self._store.tenant(org_id).chunks(job_id, keys)

    async def _completed(
        self, org_id: str, analysis: str, before: tuple[Instant, str] | None, limit: int
    ) -> list[PastRun]:
        return await self._store.tenant(org_id).completed(analysis, before=before, limit=limit)

    async def _result(self, org_id: str, result_id: str, latest: bool) -> ResultView | None:
        return await self._store.tenant(org_id).result(result_id, latest=latest)

    async def _note(self, report: WorkerReport) -> None:
        self._worker_id = report.worker_id
        await self._store.workers.note(report)

    async def _forget(self, worker_id: str) -> None:
        self._worker_id = None
        await self._store.workers.forget(worker_id)
