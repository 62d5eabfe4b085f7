"""What attempts write. Each statement carries the fence: without the lease nothing changes."""

from collections.abc import Sequence
from typing import Any

from langlauf.domain.attempt import Checkpoint, Lease, Partial, Progress
from langlauf.domain.bounds import Recorded, recorded
from langlauf.domain.event import EventType
from langlauf.domain.outcome import Completed
from langlauf.domain.progress import stored_percent
from langlauf.store.batching import rounds
from langlauf.store.operations import Recording
from langlauf.store.sqlite.ending import complete, write_end
from langlauf.store.sqlite.transaction import Key, Transaction


def record(tx: Transaction, batch: Sequence[Recording]) -> list[Recorded]:
    """What became of the writes: refused where an attempt's lease is gone. Completed jobs are ended together."""
    answers = [Recorded.REFUSED] * len(batch)
    for places in rounds(batch, lambda one: [one.lease.job_id]):
        tx.write_snapshots()  # a snapshot that comes twice is seen the second time
        ends: list[tuple[Lease, Completed]] = []
        ending: list[int] = []
        for place in places:
            lease, write = batch[place].lease, batch[place].write
            if isinstance(write, Completed):
                ends.append((lease, write))
                ending.append(place)
            else:
                answers[place] = _record(tx, lease, batch[place])
        for place, done in zip(ending, complete(tx, ends), strict=True):
            answers[place] = Recorded(done)
    return answers


def _record(tx: Transaction, lease: Lease, recording: Recording) -> Recorded:
    write = recording.write
    if isinstance(write, Progress):
        return _progress(tx, lease, write)
    if isinstance(write, Partial):
        return _partial(tx, lease, write)
    if isinstance(write, Checkpoint):
        return _checkpoint(tx, lease, write)
    return Recorded(write_end(tx, lease, write))


def _progress(tx: Transaction, lease: Lease, write: Progress) -> Recorded:
    held = tx.fenced(lease)
    row = tx.one("record_progress", **held, **_shared(write))
    if row is None:
        # No news and a job that is past its bounds are fine; a lease that is gone is not.
        return _standing(tx, held)
    job, seq, percent, step, limit = row
    key = (job, held["org"], lease.job_id)
    _tell_progress(tx, key, seq, percent, step, limit if limit == "events" else None)
    return recorded(limit)


def _partial(tx: Transaction, lease: Lease, write: Partial) -> Recorded:
    held = tx.fenced(lease)
    row = tx.one(
        "record_partial",
        **held,
        **_shared(write),
        result_id=write.result_id,
        size=write.stored_bytes,
        most_bytes=write.bounds.partial_bytes,
    )
    if row is None:
        # A snapshot that was there already and a job that is past its bounds are fine; a lease that is gone is not.
        return _standing(tx, held)
    job, seq, percent, step, limit, result_seq = row
    key = (job, held["org"], lease.job_id)
    if limit is not None:
        _tell_progress(tx, key, seq, percent, step, limit)
        return recorded(limit)
    tx.snapshot(key, "partial", result_seq, write)
    facts = {"result_id": write.result_id, "result_seq": result_seq, "progress_percent": percent}
    tx.event(key, seq, EventType.PARTIAL, "worker", facts)
    return Recorded.WRITTEN


def _checkpoint(tx: Transaction, lease: Lease, write: Checkpoint) -> Recorded:
    held = tx.fenced(lease)
    if tx.run("record_checkpoint", **held, key=write.key, payload=write.payload):
        return Recorded.WRITTEN
    # Nothing was inserted: either the chunk was there already, which is fine, or the lease is gone.
    return Recorded(_standing(tx, held) is not Recorded.REFUSED)


def _shared(write: Progress | Partial) -> dict[str, Any]:
    return {
        "percent": stored_percent(write.percent),
        "step": write.step,
        "replayed": write.replayed,
        "last_news": write.bounds.last_news,
    }


def _standing(tx: Transaction, held: dict[str, Any]) -> Recorded:
    """What an attempt hears whose write changed nothing."""
    row = tx.one("holds_lease", **held)
    return Recorded.REFUSED if row is None else recorded(row[0])


def _tell_progress(tx: Transaction, key: Key, seq: int, percent: int, step: str | None, limit: str | None) -> None:
    """Appends the event of a change of progress, with the bound that the job reached by it."""
    facts = {"progress_percent": percent, "step": step} | ({} if limit is None else {"limit": limit})
    tx.event(key, seq, EventType.PROGRESS, "worker", facts)
