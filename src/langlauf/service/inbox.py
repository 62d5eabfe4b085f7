"""What an org has seen of its messages."""

from langlauf.domain.inbox import MarkRead
from langlauf.domain.instant import Instant
from langlauf.service.tenant import Caller
from langlauf.store.protocol import Store


class Inbox:
    """Marks messages as read: for the whole org, whoever of it does so."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read_one(self, caller: Caller, notification_id: str) -> bool:
        """One message was seen; False where that was known, or where the org has no such message."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, notification_id=notification_id))

    async def read_all(self, caller: Caller, until: Instant) -> bool:
        """All that came up to an instant were seen."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, until=until))

    async def _mark(self, caller: Caller, wish: MarkRead) -> bool:
        # Whoever may see one job sees no inbox, and so has read nothing of it.
        if caller.grant is not None and caller.grant.job_id is not None:
            return False
        return await self._store.mark_read(wish)
