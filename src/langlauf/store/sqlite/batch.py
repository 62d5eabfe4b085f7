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
    claiming,
    desk,
    ending,
    holding,
    inbox,
    recording,
    retiring,
    submitting,
    sweeping,
)
from langlauf.store.sqlite.transaction import Transaction

#: What is answered all at once. It comes first: ends free slots, submissions want them, and claims come last.
SETS: dict[type, Callable[[Transaction, Sequence[Any]], Sequence[Any]]] = {
    Recording: recording.record,
    NewJob: submitting.submit,
}
#: What is answered one by one, in the order it came, and keeps what the writer remembers true.
SINGLES: dict[type, Callable[[Transaction, Any], Any]] = {
    ClaimRequest: claiming.claim,
    claiming.RenewRequest: claiming.renew,
    CancelRequest: ending.cancel,
    sweeping.SweepOne: sweeping.sweep_one,
}
#: What is rare, and may change anything.
RARE: dict[type, Callable[[Transaction, Any], Any]] = {
    sweeping.TidyLanes: sweeping.tidy_lanes,
    RetireBatch: retiring.retire_batch,
    MarkRead: inbox.mark_read,
    HoldWish: holding.hold,
    desk.Change: desk.make_change,
}


def run_batch(tx: Transaction, batch: Sequence[Any]) -> list[Any]:
    """The answers to the operations of a batch. They came at the same time, so that any order of them is right."""
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
            tx.memory.forget()
    tx.flush()
    return answers


def order_of(batch: Sequence[Any]) -> tuple[list[list[int]], list[int]]:
    """The places of a batch in the order in which they are answered: those of each set, then the others, one by one."""
    sets: dict[type, list[int]] = {kind: [] for kind in SETS}
    others: list[int] = []
    claims: list[int] = []
    for place, operation in enumerate(batch):
        kind = type(operation)
        (claims if kind is ClaimRequest else sets.get(kind, others)).append(place)
    return [places for places in sets.values() if places], others + claims
