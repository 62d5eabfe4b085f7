"""A batch of writes in one transaction: what goes together is written together."""

from collections.abc import Callable, Sequence
from typing import Any

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.holding import HoldWish
from langlauf.domain.inbox import MarkRead
from langlauf.domain.job import NewJob
from langlauf.domain.views import CancelRequest
from langlauf.store.operations import Recording
from langlauf.store.retiring import RetireBatch
from langlauf.store.sqlite import (
    access,
    claiming,
    deliveries,
    duties,
    ending,
    health,
    holding,
    inbox,
    mail,
    orgs,
    recording,
    retiring,
    submitting,
    sweeping,
    workers,
)
from langlauf.store.sqlite.transaction import Transaction

#: What is answered all at once. It comes first: ends free slots, submissions want them, and claims come last.
SETS: dict[type, Callable[[Transaction, Sequence[Any]], Sequence[Any]]] = {
    Recording: recording.record,
    NewJob: submitting.submit,
}
#: What is answered one by one, in the order it came.
SINGLES: dict[type, Callable[[Transaction, Any], Any]] = {
    claiming.RenewRequest: claiming.renew,
    CancelRequest: ending.cancel,
    sweeping.SweepOne: sweeping.sweep_one,
    sweeping.TidyLanes: sweeping.tidy_lanes,
    RetireBatch: retiring.retire_batch,
    MarkRead: inbox.mark_read,
    HoldWish: holding.hold,
    **access.HANDLERS,
    **orgs.HANDLERS,
    **workers.HANDLERS,
    **deliveries.HANDLERS,
    **duties.HANDLERS,
    **mail.HANDLERS,
    **health.HANDLERS,
}


def run_batch(tx: Transaction, batch: Sequence[Any]) -> list[Any]:
    """The answers to the operations of a batch. They came at the same time, so that any order of them is right."""
    answers: list[Any] = [None] * len(batch)
    if len(batch) == 1:
        answers[0] = _single(tx, batch[0])
    else:
        _in_order(tx, batch, answers)
    tx.flush()
    return answers


def _single(tx: Transaction, operation: Any) -> Any:
    kind = type(operation)
    if kind in SETS:
        return SETS[kind](tx, (operation,))[0]
    return claiming.claim(tx, operation) if kind is ClaimRequest else SINGLES[kind](tx, operation)


def _in_order(tx: Transaction, batch: Sequence[Any], answers: list[Any]) -> None:
    for kind, handle in SETS.items():
        places = [place for place, operation in enumerate(batch) if type(operation) is kind]
        if places:
            for place, answer in zip(places, handle(tx, [batch[place] for place in places]), strict=True):
                answers[place] = answer
    claims = []
    for place, operation in enumerate(batch):
        if type(operation) is ClaimRequest:
            claims.append(place)
        elif type(operation) not in SETS:
            tx.flush()
            answers[place] = SINGLES[type(operation)](tx, operation)
    for place in claims:
        answers[place] = claiming.claim(tx, batch[place])
