"""Group commit: operations that arrive while a batch runs go into the next one.

There is no timer. An idle store runs a single operation at once; under load the batches grow by themselves, and one
fsync covers all of them. Where several orgs wait, each has a share of the next batch, and a batch is as long as its
operations take a few milliseconds. A large payload is a batch of its own, alternating with small operations: a
heartbeat waits for at most one large payload, however many are to be written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from langlauf.clock import monotonic
from langlauf.domain.attempt import Lease, Partial, Write
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.fairness import take_in_turns
from langlauf.domain.job import NewJob
from langlauf.domain.outcome import Completed
from langlauf.telemetry.metrics import BATCH_SIZES, BATCHES, REFUSED

Operation = TypeVar("Operation")
Answer = TypeVar("Answer")

#: Bounds the time one transaction holds the writer.
LARGEST_BATCH = 1_000
#: Operations of a batch take about so long, without the commit: the next operation of any org waits for them.
BATCH_SECONDS = 0.005
#: A batch of so many or fewer is never too long: there, one slow operation or a busy machine made it so.
SMALLEST_BATCH = 8
#: Where a full batch took less time than it may, the next one may have so many times its operations.
_GROWTH = 1.25
#: Operations of one org in a batch while others wait: a flood of one org makes the batches of all no longer.
MOST_OF_ORG = 64
#: With so many operations waiting, submissions are refused; other operations are always queued.
MOST_WAITING = 10_000
#: In bytes. Writing more takes longer than a batch of small operations.
LARGE_PAYLOAD = 262_144
#: Low-priority operations yield to at most so many other batches, so that they run also under constant load.
_MOST_PASSED = 20
#: Rounds of the event loop without a new operation before a batch begins: what follows from the batch before joins it,
#: such as new submissions and the ends of jobs that were claimed. However many come, it begins after a short time.
_QUIET_ROUNDS = 4
_GATHER_SECONDS = 0.002
#: Callers that get their answers in one round of the event loop: with a hundred of them, which each write a response,
#: the round would take as long as several batches, and every other request would wait for it.
_WOKEN_AT_ONCE = 16


class BatchPace:
    """How many operations a batch may have to take `BATCH_SECONDS`, as the last batches show."""

    def __init__(self) -> None:
        self.most = LARGEST_BATCH

    def observe(self, count: int, seconds: float) -> None:
        """Learn from a batch: how many operations it had, and how long they took without the commit."""
        if seconds > BATCH_SECONDS and count > SMALLEST_BATCH:
            self.most = max(SMALLEST_BATCH, int(count * BATCH_SECONDS / seconds))
        elif seconds <= BATCH_SECONDS and count >= self.most:
            self.most = min(LARGEST_BATCH, int(self.most * _GROWTH) + 1)


class _Several(Generic[Answer]):
    """The answers to operations that were queued together, with one future for all of them."""

    def __init__(self, count: int) -> None:
        self.future: asyncio.Future[list[Answer | Exception]] = asyncio.get_running_loop().create_future()
        self._answers: list[Any] = [None] * count
        self._missing = count

    def put(self, place: int, answer: Answer | Exception) -> None:
        """Keep an answer; the last one resolves the future."""
        self._answers[place] = answer
        self._missing -= 1
        if not self._missing and not self.future.done():
            self.future.set_result(self._answers)


#: An operation, and what gets its answer: a future, or a place among several answers.
_Queued = tuple[Operation, asyncio.Future[Answer] | tuple[_Several[Answer], int]]


class GroupCommit(Generic[Operation, Answer]):
    """Collects operations and runs them batch by batch; an answer that is an exception is raised to its caller.

    `done` is called with the operations of a batch that succeeded, also where their callers were cancelled meanwhile.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Operation]], Awaitable[Sequence[Answer | Exception]]],
        *,
        name: str,
        done: Callable[[Sequence[tuple[Operation, Answer]]], None] = lambda _: None,
        largest: int = LARGEST_BATCH,
        pace: BatchPace | None = None,
        size: Callable[[Operation], int] = lambda _: 0,
        holder: Callable[[Operation], str] = lambda _: "",
    ) -> None:
        self._run = run
        self._done = done
        self._name = name
        #: its name in metrics
        self.queue = name.removeprefix("langlauf-")
        REFUSED.initialize(self.queue)
        self._largest = largest
        self._pace = pace
        self._size = size
        self._holder = holder
        self._waiting: list[_Queued[Operation, Answer]] = []
        self._large: list[_Queued[Operation, Answer]] = []
        self._later: list[_Queued[Operation, Answer]] = []
        self._passed = 0
        #: whether small operations are next, where both wait
        self._small_first = True
        self._drain: asyncio.Task[None] | None = None
        self._finished = False

    @property
    def waiting(self) -> int:
        """How many operations wait for the next batch."""
        return len(self._waiting) + len(self._large)

    @property
    def idle(self) -> bool:
        """Whether no batch is under way, and none is to follow."""
        return self._drain is None

    def do(self, operation: Operation) -> asyncio.Future[Answer]:
        """Run the operation in the next batch; the future has its answer."""
        return self._queued(self._queue_of(operation), operation)

    def do_all(self, operations: Sequence[Operation]) -> asyncio.Future[list[Answer | Exception]]:
        """Run operations in the next batches; the future has all answers, each of them the answer or its error."""
        self._begin()
        several: _Several[Answer] = _Several(len(operations))
        for place, operation in enumerate(operations):
            self._queue_of(operation).append((operation, (several, place)))
        return several.future

    def do_later(self, operation: Operation) -> asyncio.Future[Answer]:
        """Run the operation in a batch of its own when nothing else waits."""
        return self._queued(self._later, operation)

    def _queue_of(self, operation: Operation) -> list[_Queued[Operation, Answer]]:
        return self._large if self._size(operation) > LARGE_PAYLOAD else self._waiting

    def _queued(self, queue: list[_Queued[Operation, Answer]], operation: Operation) -> asyncio.Future[Answer]:
        self._begin()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue.append((operation, future))
        return future

    def _begin(self) -> None:
        """Let batches run, as an operation is about to be queued."""
        if self._finished:
            raise StoreUnavailable("the store is closed")
        if self._drain is None:
            self._drain = asyncio.create_task(self._run_batches(), name=self._name)

    async def finish(self) -> None:
        """Refuse further operations, and wait until nothing is under way."""
        self._finished = True
        await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Wait until no batch is under way, and none is to follow."""
        while self._drain is not None:
            await asyncio.wait({self._drain})

    async def _run_batches(self) -> None:
        try:
            while self._waiting or self._large or self._later:
                await self._gather()
                await self._run_one(self._next_batch())
        finally:
            self._drain = None
            self._small_first = True

    async def _gather(self) -> None:
        """Wait while the event loop brings more operations."""
        quiet, until = 0, monotonic() + _GATHER_SECONDS
        while quiet < _QUIET_ROUNDS and monotonic() < until:
            known = self.waiting
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.waiting == known else 0

    def _next_batch(self) -> list[_Queued[Operation, Answer]]:
        if self._later and (not self.waiting or self._passed >= _MOST_PASSED):
            self._passed = 0
            return [self._later.pop(0)]
        self._passed += bool(self._later)
        self._small_first = bool(self._large) and not (self._waiting and self._small_first)
        if self._small_first:  # the next time
            return [self._large.pop(0)]
        most = self._largest if self._pace is None else self._pace.most
        batch, self._waiting = take_in_turns(
            self._waiting, lambda entry: self._holder(entry[0]), most=most, most_of_one=MOST_OF_ORG
        )
        return batch

    async def _run_one(self, batch: list[_Queued[Operation, Answer]]) -> None:
        began = monotonic()
        try:
            answers = await self._run([operation for operation, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever broke the batch is the answer to each of its callers
            answers = [error] * len(batch)
        BATCHES.observe(monotonic() - began, self.queue)
        BATCH_SIZES.observe(len(batch), self.queue)
        answered = list(zip(batch, answers, strict=True))
        try:
            # Also where the caller was cancelled.
            self._done(
                [(operation, answer) for (operation, _), answer in answered if not isinstance(answer, Exception)]
            )
        finally:
            woken = 0
            for (_, waiter), answer in answered:
                if isinstance(answer, StoreUnavailable):
                    REFUSED.add(self.queue)
                if isinstance(waiter, tuple):
                    several, place = waiter
                    several.put(place, answer)
                    continue
                _resolve(waiter, answer)
                woken += 1
                if woken % _WOKEN_AT_ONCE == 0:
                    await asyncio.sleep(0)


def _resolve(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def rounds(batch: Sequence[Operation], keys: Callable[[Operation], Sequence[Hashable]]) -> list[list[int]]:
    """Return the indexes of operations in rounds: those of one round share no key, and each key keeps its order."""
    found: list[list[int]] = []
    last: dict[Hashable, int] = {}
    for place, operation in enumerate(batch):
        mine = keys(operation)
        number = 0
        for key in mine:
            number = max(number, last.get(key, -1) + 1)
        for key in mine:
            last[key] = number
        if number == len(found):
            found.append([])
        found[number].append(place)
    return found


class Recording(msgspec.Struct, frozen=True):
    """A write of an attempt under its lease."""

    lease: Lease
    write: Write


def org_of(operation: object) -> str:
    """Return the org that a write is for; empty where it is for none, or for several."""
    if isinstance(operation, Recording):
        return operation.lease.org_id
    return operation.job.org_id if isinstance(operation, NewJob) else getattr(operation, "org_id", None) or ""


def payload_length(operation: object) -> int:
    """Return the approximate length of the payload of a write; 0 without one."""
    write = operation.write if isinstance(operation, Recording) else operation
    payload = write.content if isinstance(write, Partial | Completed) else getattr(write, "payload", None)
    return len(payload) if isinstance(payload, str | memoryview) else 0
