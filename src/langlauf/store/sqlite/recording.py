"""What an attempt writes while it runs. Each statement carries the fence: without the lease nothing changes."""

from langlauf.domain.attempt import Checkpoint, Lease, Partial, Progress
from langlauf.domain.event import EventType
from langlauf.domain.progress import stored_percent
from langlauf.store.operations import Recording
from langlauf.store.sqlite.ending import give_up_lease, write_end
from langlauf.store.sqlite.transaction import Transaction


def record(tx: Transaction, recording: Recording) -> bool:
    """True where the write was made; False where the attempt's lease is gone."""
    lease, write = recording.lease, recording.write
    if isinstance(write, Progress):
        return _progress(tx, lease, write)
    if isinstance(write, Partial):
        return _partial(tx, lease, write)
    if isinstance(write, Checkpoint):
        return _checkpoint(tx, lease, write)
    return give_up_lease(tx, lease) and write_end(tx, lease, write)


def _progress(tx: Transaction, lease: Lease, write: Progress) -> bool:
    fenced = tx.fenced(lease)
    row = tx.one(
        "record_progress",
        **fenced,
        percent=stored_percent(write.percent),
        step=write.step,
        replayed=write.replayed,
    )
    if row is None:
        # Nothing was changed: either there was no news, which is fine, or the lease is gone.
        return tx.one("holds_lease", **fenced) is not None
    seq, percent, step, *ids = row
    facts = {"progress_percent": percent, "step": step}
    tx.event(lease.org_id, lease.job_id, seq, EventType.PROGRESS, "worker", (ids[0], ids[1]), facts)
    return True


def _partial(tx: Transaction, lease: Lease, write: Partial) -> bool:
    fenced = tx.fenced(lease)
    row = tx.one(
        "record_partial",
        **fenced,
        percent=stored_percent(write.percent),
        step=write.step,
        replayed=write.replayed,
        result_id=write.result_id,
    )
    if row is None:
        # Either the snapshot was there already, which is fine, or the lease is gone.
        return tx.one("holds_lease", **fenced) is not None
    seq, percent, result_seq, *ids = row
    tx.snapshot(lease, "partial", result_seq, write)
    facts = {"result_id": write.result_id, "result_seq": result_seq, "progress_percent": percent}
    tx.event(lease.org_id, lease.job_id, seq, EventType.PARTIAL, "worker", (ids[0], ids[1]), facts)
    return True


def _checkpoint(tx: Transaction, lease: Lease, write: Checkpoint) -> bool:
    fenced = tx.fenced(lease)
    if tx.run("record_checkpoint", **fenced, key=write.key, payload=write.payload):
        return True
    # Nothing was inserted: either the chunk was there already, which is fine, or the lease is gone.
    return tx.one("holds_lease", **fenced) is not None
