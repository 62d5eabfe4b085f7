"""Deliveries in PostgreSQL: endpoints, and the outbox that fills itself."""

from collections.abc import Callable
from typing import cast

from langlauf.domain.delivery import (
    MOST_ENDPOINTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryFigures,
    Endpoint,
    EndpointChange,
    Replay,
)
from langlauf.domain.instant import Instant, after
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.texts import holdable, name_of
from langlauf.store.rows import delivery_from, endpoint_from, subjects_text

_BEGINNING = -(2**62)


class PostgresDeliveries:
    """Endpoints and the outbox. Whoever claims may have to wait for other hosts, so it has a connection of its own."""

    def __init__(self, links: Links, claims: Link, at: Callable[[], Instant | None]) -> None:
        self._links = links
        self._claims = claims
        self._at = at

    async def add_endpoint(self, new: Endpoint) -> Endpoint | None:
        values = (new.org_id, new.endpoint_id, new.url, new.name, subjects_text(new.subjects), MOST_ENDPOINTS)
        rows = await self._links.rows("add_endpoint", self._at(), *values)
        return endpoint_from(rows[0]) if rows else None

    async def change_endpoint(self, change: EndpointChange) -> Endpoint | None:
        rows = await self._links.rows(
            "change_endpoint",
            self._at(),
            change.org_id,
            name_of(change.endpoint_id),
            change.name,
            None if change.subjects is None else subjects_text(change.subjects),
            change.enabled,
            change.reason or "switched off",
            _microseconds(change.rotate_seconds),
        )
        return endpoint_from(rows[0]) if rows else None

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        return cast("bool", await self._links.call("remove_endpoint", org_id, name_of(endpoint_id)))

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
        said = await self._links.call(
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
        return cast("bool", said)

    async def replay(self, wish: Replay) -> int:
        if not all(map(holdable, filter(None, (wish.notification_id, wish.endpoint_id)))):
            return 0
        since = _BEGINNING if wish.since is None else wish.since
        values = (wish.org_id, wish.notification_id, wish.endpoint_id, since, wish.sent_too, wish.most)
        return cast("int", await self._links.call("replay", self._at(), *values))

    async def figures(self) -> DeliveryFigures:
        [(channels, counts, oldest_due, paused, disabled)] = await self._links.rows("delivery_figures", self._at())
        return DeliveryFigures(
            pending=dict(zip(channels or (), counts or (), strict=True)),
            oldest_due=oldest_due,
            paused_lanes=paused,
            disabled_endpoints=disabled,
        )


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else after(0, seconds)
