"""An org's messages, and which of them are read."""

from collections.abc import Sequence

from langlauf.auth.caller import Caller
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import InboxPage, InboxRecord, MarkRead
from langlauf.service.read import reads_for
from langlauf.store.protocol import Store

#: To find unread messages, one page reads at most this many batches of this size.
_STEP = 200
_MOST_STEPS = 5


class Inbox:
    """Lists messages, and marks them as read for the whole org."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, caller: Caller, *, before: tuple[Instant, str] | None, limit: int, unread: bool) -> InboxPage:
        """Return the next messages, newest first. A page of unread ones may be short or empty and not the last."""
        reads = reads_for(self._store, caller)
        if not unread:
            return await reads.inbox(before=before, limit=limit)
        found: list[InboxRecord] = []
        for _ in range(_MOST_STEPS):
            page = await reads.inbox(before=before, limit=_STEP)
            for message in page.messages:
                before = (message.notification.created_at, message.notification.notification_id)
                if message.unread:
                    found.append(message)
                elif message.notification.read_at is None:  # all messages up to here were marked together
                    return InboxPage(found, None)
                if len(found) == limit:
                    return InboxPage(found, before)
            if page.after is None:
                return InboxPage(found, None)
        return InboxPage(found, before)

    async def read_some(self, caller: Caller, ids: Sequence[str], until: Instant | None) -> bool:
        """Mark these messages, and all up to an instant; return whether any was unread."""
        changed = [await self.read_one(caller, one) for one in dict.fromkeys(ids)]
        return (until is not None and await self.read_all(caller, until)) or any(changed)

    async def read_one(self, caller: Caller, notification_id: str) -> bool:
        """Mark one message; False where it was read already, or where the org has no such message."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, notification_id=notification_id))

    async def read_of_job(self, caller: Caller, job_id: str) -> bool:
        """Mark the messages about a job; return whether any had not been marked by itself."""
        messages = await reads_for(self._store, caller).notifications(job_id, channel="in_app", limit=_STEP)
        changed = [await self.read_one(caller, one.notification_id) for one in messages if one.read_at is None]
        return any(changed)

    async def read_all(self, caller: Caller, until: Instant) -> bool:
        """Mark all messages up to an instant."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, until=until))

    async def _mark(self, caller: Caller, marking: MarkRead) -> bool:
        # A token for one job sees no inbox, and so marks nothing.
        if caller.grant is not None and caller.grant.job_id is not None:
            return False
        return await self._store.mark_read(marking)
