"""A batch of writes in one transaction: operations of one kind are written together."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.job import NewJob
from langlauf.domain.read_models import CancelRequest, JobView, MarkRead
from langlauf.domain.result import HoldRequest, ResultGone
from langlauf.domain.schedule import Pause, PauseRequest, ResumeRequest
from langlauf.store.group_commit import LARGE_PAYLOAD, Recording, payload_length
from langlauf.store.retention import RetireBatch
from langlauf.store.sql import pause_from
from langlauf.store.sqlite import claim, end, record, retention, submit
from langlauf.store.sqlite.transaction import Transaction

T = TypeVar("T")


class Change(msgspec.Struct, frozen=True):
    """A write as a function, and the org whose share of the batch it takes."""

    run: Callable[[Transaction], Any]
    org_id: str | None = None
    #: whether it changes nothing that the writer caches
    keeps_cache: bool = False


def hold(tx: Transaction, request: HoldRequest) -> JobView | ResultGone | None:
    """Hold the job of a result, or release it, and return the job."""
    found = tx.one("find_held_job", org_id=request.org_id, result_id=request.result_id)
    if found is None:
        return None
    job_id, removed_at = found
    job = {"org_id": request.org_id, "job_id": job_id}
    if not request.held:
        tx.run("release_job", **job)
    elif removed_at is not None:
        return ResultGone(job_id, removed_at)
    else:
        tx.run("hold_job", **job, result_id=request.result_id, now=tx.now, by=request.by, reason=request.reason)
    return tx.view(request.org_id, job_id)


def mark_read(tx: Transaction, request: MarkRead) -> bool:
    """Mark one message, or all up to an instant that has passed; return whether that changed anything."""
    changed = 0
    if request.notification_id is not None:
        message = {"org_id": request.org_id, "notification_id": request.notification_id, "now": tx.now}
        changed += tx.run("mark_message", **message) or tx.run("mark_stored_message", **message)
    if request.until is not None:
        changed += tx.run("mark_all", org_id=request.org_id, until=min(request.until, tx.now))
    return changed > 0


def pause(tx: Transaction, request: PauseRequest) -> Pause:
    """Pause an analysis. A pause that holds already keeps its beginning and gets the new reason and end."""
    [found] = tx.change("pause_analysis", **structs.asdict(request))
    return pause_from(found)


def resume(tx: Transaction, request: ResumeRequest) -> bool:
    """End a pause; return whether there was one."""
    return bool(tx.change("resume_analysis", **structs.asdict(request)))


def cancel(tx: Transaction, batch: Sequence[CancelRequest]) -> list[JobView | None]:
    """Cancel jobs. Each reads its job alone, so that the log is written once for all of them."""
    return [end.cancel(tx, request) for request in batch]


#: Operations that run as a set. They come first: ends free slots, submissions use them, and claims come last.
SETS: dict[type, Callable[[Transaction, Sequence[Any]], Sequence[Any]]] = {
    Recording: record.record,
    NewJob: submit.submit,
    CancelRequest: cancel,
}
#: Operations that run one by one, in the order of arrival, and keep the writer's cache valid.
SINGLES: dict[type, Callable[[Transaction, Any], Any]] = {
    ClaimRequest: claim.claim,
    claim.RenewRequest: claim.renew,
    end.SweepOne: end.sweep_one,
    claim.SettleTimes: claim.settle_times,
}
#: Rare operations, which may change anything: the writer's cache is dropped after them, unless they say otherwise.
RARE: dict[type, Callable[[Transaction, Any], Any]] = {
    end.TidyLanes: end.tidy_lanes,
    RetireBatch: retention.retire_batch,
    retention.PruneCodes: retention.prune_codes,
    MarkRead: mark_read,
    HoldRequest: hold,
    PauseRequest: pause,
    ResumeRequest: resume,
    Change: lambda tx, change: change.run(tx),
}


def is_short(batch: Sequence[Any]) -> bool:
    """Whether a batch takes less time than changes of threads: nothing in it is rare, large, or copies what may be."""
    return all(map(_is_quick, batch)) and sum(map(payload_length, batch)) <= LARGE_PAYLOAD


def _is_quick(operation: Any) -> bool:
    kind = type(operation)
    if kind is NewJob:  # not with the chunks or the result of another job
        return operation.resume_from is None and operation.reuse is None
    return operation.keeps_cache if kind is Change else kind in SETS or kind in SINGLES


def run_batch(tx: Transaction, batch: Sequence[Any]) -> list[Any]:
    """Return the answers to the operations of a batch. They are concurrent, so that any order of them is right."""
    answers: list[Any] = [None] * len(batch)
    together, singles = order_of(batch)
    for places in together:
        handle = SETS[type(batch[places[0]])]
        for place, answer in zip(places, handle(tx, [batch[place] for place in places]), strict=True):
            answers[place] = answer
    for place in singles:
        tx.flush()
        operation = batch[place]
        if type(operation) in SINGLES:
            answers[place] = SINGLES[type(operation)](tx, operation)
        else:
            answers[place] = RARE[type(operation)](tx, operation)
            if not (isinstance(operation, Change) and operation.keeps_cache):
                tx.cache.forget()
    tx.flush()
    return answers


def order_of(batch: Sequence[Any]) -> tuple[list[list[int]], list[int]]:
    """Return the indexes of a batch in the order of execution: those of each set, then the others one by one."""
    sets: dict[type, list[int]] = {kind: [] for kind in SETS}
    others: list[int] = []
    claims: list[int] = []
    for place, operation in enumerate(batch):
        kind = type(operation)
        (claims if kind is ClaimRequest else sets.get(kind, others)).append(place)
    return [places for places in sets.values() if places], others + claims
