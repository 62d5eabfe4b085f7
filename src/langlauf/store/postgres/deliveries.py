"""Webhook endpoints, the outbox and e-mail recipients in PostgreSQL."""

from collections.abc import Callable

from msgspec.structs import asdict

from langlauf.domain.delivery import Delivery, DeliveryClaim, DeliveryReplay
from langlauf.domain.instant import Instant
from langlauf.domain.mail import AddressMark
from langlauf.store.admin import DeliveryStore, MailStore
from langlauf.store.postgres.admin import PostgresCalls
from langlauf.store.postgres.batch import storable
from langlauf.store.postgres.connection import DatabaseConnection, ReadPool
from langlauf.store.sql import delivery_from


class PostgresDeliveries(PostgresCalls, DeliveryStore):
    """Endpoints and the outbox. Claims may wait for locks of other hosts, so they have a connection of their own."""

    def __init__(self, pool: ReadPool, claims: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        super().__init__(pool, at)
        self._now = at
        self._claims = claims

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        rows = await self._claims.rows("claim_deliveries", *self._timed("claim_deliveries", asdict(request)))
        return [delivery_from(columns, failures) for *columns, failures in rows]

    async def replay(self, request: DeliveryReplay) -> int:
        if not all(map(storable, filter(None, (request.notification_id, request.endpoint_id)))):
            return 0
        return await super().replay(request)


class PostgresMail(PostgresCalls, MailStore):
    """Who may be mailed, and how often."""

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return storable(address) and await super().remove_mark(org_id, address, mark)
