"""Webhook endpoints, the outbox and e-mail recipients in PostgreSQL."""

from collections.abc import Callable
from typing import cast

from langlauf.domain.delivery import (
    MOST_ENDPOINTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryReplay,
    DeliveryStatistics,
    EndpointChange,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.instant import Instant, after
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal
from langlauf.store.postgres.batch import storable, storable_or_none
from langlauf.store.postgres.connection import DatabaseConnection, PooledStore, ReadPool
from langlauf.store.sql import delivery_from, endpoint_from, subjects_text

_BEGINNING = -(2**62)


class PostgresDeliveries(PooledStore):
    """Endpoints and the outbox. Claims may wait for locks of other hosts, so they have a connection of their own."""

    def __init__(self, pool: ReadPool, claims: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        super().__init__(pool, at)
        self._claims = claims

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        values = (new.org_id, new.endpoint_id, new.url, new.name, subjects_text(new.subjects), MOST_ENDPOINTS)
        rows = await self._pool.rows("add_endpoint", self._at(), *values)
        return endpoint_from(rows[0]) if rows else None

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        rows = await self._pool.rows(
            "change_endpoint",
            self._at(),
            change.org_id,
            storable_or_none(change.endpoint_id),
            change.name,
            None if change.subjects is None else subjects_text(change.subjects),
            change.enabled,
            change.reason or "switched off",
            _microseconds(change.rotate_seconds),
        )
        return endpoint_from(rows[0]) if rows else None

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        return cast("bool", await self._pool.call("remove_endpoint", org_id, storable_or_none(endpoint_id)))

    async def subscribe(self, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
        values = (wanted.channel, wanted.target, wanted.lane, wanted.language)
        return cast("bool | None", await self._pool.call("subscribe", org_id, storable_or_none(job_id), *values))

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        rows = await self._claims.rows(
            "claim_deliveries",
            self._at(),
            request.most,
            request.most_of_lane,
            after(0, request.claim_seconds),
            request.cautious_after,
            request.with_mail,
        )
        return [delivery_from(columns, failures) for *columns, failures in rows]

    async def finish(self, end: DeliveryEnd) -> bool:
        recorded = await self._pool.call(
            "finish_delivery",
            self._at(),
            end.org_id,
            end.notification_id,
            end.attempt,
            end.status,
            end.seconds,
            after(0, end.retry_seconds),
            end.status_code,
            end.error,
            end.reply,
            _microseconds(end.pause_seconds),
            end.lane_failed,
            end.disable,
        )
        return cast("bool", recorded)

    async def replay(self, request: DeliveryReplay) -> int:
        if not all(map(storable, filter(None, (request.notification_id, request.endpoint_id)))):
            return 0
        since = _BEGINNING if request.since is None else request.since
        values = (request.org_id, request.notification_id, request.endpoint_id, since, request.sent_too, request.most)
        return cast("int", await self._pool.call("replay", self._at(), *values))

    async def figures(self) -> DeliveryStatistics:
        [(channels, counts, oldest_due, paused, disabled)] = await self._pool.rows("delivery_figures", self._at())
        return DeliveryStatistics(
            pending=dict(zip(channels or (), counts or (), strict=True)),
            oldest_due=oldest_due,
            paused_lanes=paused,
            disabled_endpoints=disabled,
        )


class PostgresMail(PooledStore):
    """Who may be mailed, and how often."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return cast("bool", await self._pool.call("add_mail_mark", self._at(), org_id, address, mark))

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        if not storable(address):
            return False
        return cast("bool", await self._pool.call("remove_mail_mark", org_id, address, mark))

    async def admit(self, request: MailAdmission) -> MailRefusal | None:
        refusal = await self._pool.call(
            "admit_mail",
            self._at(),
            request.org_id,
            request.notification_id,
            request.attempt,
            request.address,
            request.counted,
            request.only_listed,
            request.org_rate.quota,
            after(0, request.org_rate.window),
            request.address_rate.quota,
            after(0, request.address_rate.window),
        )
        return cast("MailRefusal | None", refusal)


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else after(0, seconds)
