"""Marking messages as seen."""

from langlauf.domain.inbox import MarkRead
from langlauf.store.sqlite.transaction import Transaction


def mark_read(tx: Transaction, wish: MarkRead) -> bool:
    """Marks one message, or all up to an instant that has passed; tells whether that changed anything."""
    changed = 0
    if wish.notification_id is not None:
        message = {"org_id": wish.org_id, "notification_id": wish.notification_id, "now": tx.now}
        changed += tx.run("mark_message", **message) or tx.run("mark_stored_message", **message)
    if wish.until is not None:
        changed += tx.run("mark_all", org_id=wish.org_id, until=min(wish.until, tx.now))
    return changed > 0
