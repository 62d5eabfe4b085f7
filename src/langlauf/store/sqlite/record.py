"""Writes of attempts. Each statement carries the fence: without the lease nothing changes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langlauf.domain.attempt import Checkpoint, Lease, Partial, Progress, WriteResult, stored_percent, write_result
from langlauf.domain.event import EventType
from langlauf.domain.outcome import Completed
from langlauf.store.group_commit import Recording, rounds
from langlauf.store.sqlite.end import complete, write_end
from langlauf.store.sqlite.transaction import Key, Row, Transaction


def record(tx: Transaction, batch: Sequence[Recording]) -> list[WriteResult]:
    """Return the results of the writes: refused where an attempt's lease is lost. Writes of one kind run together."""
    answers = [WriteResult.REFUSED] * len(batch)
    for places in rounds(batch, lambda one: [one.lease.job_id]):
        tx.write_snapshots()  # so that a repeated snapshot is noticed
        kinds: defaultdict[type, list[int]] = defaultdict(list)
        for place in places:
            kinds[type(batch[place].write)].append(place)
        for kind, mine in kinds.items():
            for place, answer in zip(mine, _record(tx, kind, [batch[place] for place in mine]), strict=True):
                answers[place] = answer
    return answers


def _record(tx: Transaction, kind: type, batch: Sequence[Recording]) -> Sequence[WriteResult]:
    writes: list[tuple[Lease, Any]] = [(one.lease, one.write) for one in batch]
    if kind is Completed:
        return [WriteResult(done) for done in complete(tx, writes)]
    if kind is Progress:
        return _progress(tx, writes)
    if kind is Partial:
        return _partials(tx, writes)
    if kind is Checkpoint:
        return [_checkpoint(tx, lease, write) for lease, write in writes]
    return [WriteResult(write_end(tx, lease, write)) for lease, write in writes]


def _progress(tx: Transaction, writes: Sequence[tuple[Lease, Progress]]) -> list[WriteResult]:
    values = [(*_shared(tx, place, *one), one[1].bounds.last_progress_event) for place, one in enumerate(writes)]
    answers: list[WriteResult | None] = [None] * len(writes)
    changes: list[Row] = []
    for place, job, seq, percent, step, limit in tx.each("reporting_jobs", values):
        key = (job, values[place][2], writes[place][0].job_id)
        _progress_event(tx, key, seq, percent, step, limit if limit == "events" else None)
        changes.append((job, *values[place][1:]))
        answers[place] = write_result(limit)
    _change(tx, "record_progress", changes)
    return _with_standing(tx, writes, answers)


def _partials(tx: Transaction, writes: Sequence[tuple[Lease, Partial]]) -> list[WriteResult]:
    values = [
        (
            *_shared(tx, place, lease, write),
            write.result_id,
            write.stored_bytes,
            write.bounds.partial_bytes,
            write.bounds.last_progress_event,
        )
        for place, (lease, write) in enumerate(writes)
    ]
    answers: list[WriteResult | None] = [None] * len(writes)
    changes: list[Row] = []
    for place, job, seq, percent, step, limit, result_seq in tx.each("showing_jobs", values):
        lease, write = writes[place]
        key = (job, values[place][2], lease.job_id)
        changes.append((job, *values[place][1:]))
        answers[place] = write_result(limit)
        if limit is not None:
            _progress_event(tx, key, seq, percent, step, limit)
            continue
        tx.snapshot(key, seq, "partial", result_seq, percent, write)
    _change(tx, "record_partial", changes)
    return _with_standing(tx, writes, answers)


def _shared(tx: Transaction, place: int, lease: Lease, write: Progress | Partial) -> Row:
    """Return the values that reports and snapshots have in common, in the order of the statements."""
    held = (place, lease.job_id, tx.org(lease.org_id), lease.attempt, tx.now)
    return (*held, stored_percent(write.percent), write.step, write.replayed)


def _change(tx: Transaction, statement: str, changes: Sequence[Row]) -> None:
    if changes and tx.run_many(statement, changes) != len(changes):
        raise RuntimeError(f"a job was found under its lease that {statement} cannot change")


def _with_standing(
    tx: Transaction, writes: Sequence[tuple[Lease, Any]], answers: Sequence[WriteResult | None]
) -> list[WriteResult]:
    """Return the answers. Only a lost lease is refused; no change, a known snapshot and a reached limit are fine."""
    return [
        _standing(tx, tx.fenced(lease)) if answer is None else answer
        for (lease, _), answer in zip(writes, answers, strict=True)
    ]


def _checkpoint(tx: Transaction, lease: Lease, write: Checkpoint) -> WriteResult:
    held = tx.fenced(lease)
    if tx.run("record_checkpoint", **held, key=write.key, payload=write.payload, total=write.total):
        return WriteResult.WRITTEN
    # Nothing was inserted: either the chunk was stored already, which is fine, or the lease is lost.
    return WriteResult(_standing(tx, held) is not WriteResult.REFUSED)


def _standing(tx: Transaction, held: dict[str, Any]) -> WriteResult:
    """Return the answer for a write that changed nothing."""
    row = tx.one("holds_lease", **held)
    return WriteResult.REFUSED if row is None else write_result(row[0])


def _progress_event(tx: Transaction, key: Key, seq: int, percent: int, step: str | None, limit: str | None) -> None:
    """Append the event of a change of progress, with the bound that the job reached by it."""
    facts = {"progress_percent": percent, "step": step} | ({} if limit is None else {"limit": limit})
    tx.event(key, seq, EventType.PROGRESS, "worker", facts)
