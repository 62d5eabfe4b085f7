"""What only this store's writer is asked to do, told to whoever waits in this process."""

from langlauf.hints import Hints
from langlauf.store import announcing
from langlauf.store.sqlite.retiring import RetireBatch


def announce(hints: Hints, operation: object, answer: object) -> None:
    """Wakes whoever may want to know of an operation and its answer."""
    announcing.announce(hints, operation, answer)
    if isinstance(operation, RetireBatch):
        hints.changed(job_id for _, job_id in operation.jobs)
