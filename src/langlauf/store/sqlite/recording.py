"""What an attempt writes while it runs. Each statement carries the fence: without the lease nothing changes."""

from typing import Any

from langlauf.domain.attempt import Checkpoint, Lease, Partial, Progress
from langlauf.domain.bounds import Recorded, recorded
from langlauf.domain.event import EventType
from langlauf.domain.progress import stored_percent
from langlauf.store.operations import Recording
from langlauf.store.sqlite.ending import give_up_lease, write_end
from langlauf.store.sqlite.transaction import Transaction


def record(tx: Transaction, recording: Recording) -> Recorded:
    """What became of the write: refused where the attempt's lease is gone."""
    lease, write = recording.lease, recording.write
    if isinstance(write, Progress):
        return _progress(tx, lease, write)
    if isinstance(write, Partial):
        return _partial(tx, lease, write)
    if isinstance(write, Checkpoint):
        return _checkpoint(tx, lease, write)
    return Recorded(give_up_lease(tx, lease) and write_end(tx, lease, write))


def _progress(tx: Transaction, lease: Lease, write: Progress) -> Recorded:
    row = tx.one("record_progress", **tx.fenced(lease), **_shared(write))
    if row is None:
        # No news and a job that is past its bounds are fine; a lease that is gone is not.
        return _standing(tx, lease)
    seq, percent, step, limit, *ids = row
    _tell_progress(tx, lease, seq, (ids[0], ids[1]), percent, step, limit if limit == "events" else None)
    return recorded(limit)


def _partial(tx: Transaction, lease: Lease, write: Partial) -> Recorded:
    row = tx.one(
        "record_partial",
        **tx.fenced(lease),
        **_shared(write),
        result_id=write.result_id,
        size=write.stored_bytes,
        most_bytes=write.bounds.partial_bytes,
    )
    if row is None:
        # A snapshot that was there already and a job that is past its bounds are fine; a lease that is gone is not.
        return _standing(tx, lease)
    seq, percent, step, result_seq, limit, *ids = row
    if limit is not None:
        _tell_progress(tx, lease, seq, (ids[0], ids[1]), percent, step, limit)
        return recorded(limit)
    tx.snapshot(lease, "partial", result_seq, write)
    facts = {"result_id": write.result_id, "result_seq": result_seq, "progress_percent": percent}
    tx.event(lease.org_id, lease.job_id, seq, EventType.PARTIAL, "worker", (ids[0], ids[1]), facts)
    return Recorded.WRITTEN


def _checkpoint(tx: Transaction, lease: Lease, write: Checkpoint) -> Recorded:
    if tx.run("record_checkpoint", **tx.fenced(lease), key=write.key, payload=write.payload):
        return Recorded.WRITTEN
    # Nothing was inserted: either the chunk was there already, which is fine, or the lease is gone.
    return Recorded(_standing(tx, lease) is not Recorded.REFUSED)


def _shared(write: Progress | Partial) -> dict[str, Any]:
    return {
        "percent": stored_percent(write.percent),
        "step": write.step,
        "replayed": write.replayed,
        "last_news": write.bounds.last_news,
    }


def _standing(tx: Transaction, lease: Lease) -> Recorded:
    """What an attempt hears whose write changed nothing."""
    row = tx.one("holds_lease", **tx.fenced(lease))
    return Recorded.REFUSED if row is None else recorded(row[0])


def _tell_progress(
    tx: Transaction, lease: Lease, seq: int, ids: tuple[str, str], percent: int, step: str | None, limit: str | None
) -> None:
    """Appends the event of a change of progress, with the bound that the job reached by it."""
    facts = {"progress_percent": percent, "step": step} | ({} if limit is None else {"limit": limit})
    tx.event(lease.org_id, lease.job_id, seq, EventType.PROGRESS, "worker", ids, facts)
