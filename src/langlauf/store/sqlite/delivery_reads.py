"""What an org can read of its endpoints and deliveries. The org is bound once, and goes into every query."""

from langlauf.domain.delivery import DeliveryAttempt, DeliveryFilter, Endpoint, Wish
from langlauf.domain.mail_rules import MailMark
from langlauf.domain.notification import Notification
from langlauf.store.rows import endpoint_from, wish_from
from langlauf.store.sqlite.lists import SqliteLists
from langlauf.store.walking import FIRST


class SqliteDeliveryReads(SqliteLists):
    """Everything here belongs to one org; anything else does not exist."""

    async def endpoints(self) -> list[Endpoint]:
        rows = await self._run(lambda connection: self._rows(connection, "read_endpoints", endpoint_id=None))
        return [endpoint_from(row) for row in rows]

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        before_at, before_id = which.before or FIRST
        values = {"before_at": before_at, "before_id": before_id, "status": which.status, "limit": which.limit}
        values |= {"job_id": which.job_id, "endpoint_id": which.endpoint_id}
        query = "read_deliveries" if which.endpoint_id is None else "read_deliveries_of_endpoint"
        rows = await self._run(lambda connection: self._rows(connection, query, **values))
        return [Notification(*row) for row in rows]

    async def delivery(self, notification_id: str) -> Notification | None:
        rows = await self._run(
            lambda connection: self._rows(connection, "read_delivery", notification_id=notification_id)
        )
        return Notification(*rows[0]) if rows else None

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        rows = await self._run(
            lambda connection: self._rows(
                connection, "read_delivery_attempts", notification_id=notification_id, limit=limit
            )
        )
        return [DeliveryAttempt(*row) for row in rows]

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        rows = await self._run(lambda connection: self._rows(connection, "read_mail_marks", address=address))
        return [MailMark(*row) for row in rows]

    async def wishes(self, job_id: str) -> tuple[Wish, ...]:
        rows = await self._run(lambda connection: self._rows(connection, "read_wishes", job_id=job_id))
        return tuple(wish_from(row) for row in rows)
