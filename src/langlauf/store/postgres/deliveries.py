"""Deliveries in PostgreSQL."""

from langlauf.domain.delivery import (
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryFigures,
    Endpoint,
    EndpointChange,
    Replay,
)


class PostgresDeliveries:
    """Endpoints and the outbox."""

    async def add_endpoint(self, new: Endpoint) -> Endpoint | None:
        raise NotImplementedError

    async def change_endpoint(self, change: EndpointChange) -> Endpoint | None:
        raise NotImplementedError

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        raise NotImplementedError

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:  # noqa: ARG002
        return []

    async def finish(self, end: DeliveryEnd) -> bool:
        raise NotImplementedError

    async def replay(self, wish: Replay) -> int:
        raise NotImplementedError

    async def figures(self) -> DeliveryFigures:
        return DeliveryFigures(pending={}, oldest_due=None, paused_lanes=0, disabled_endpoints=0)
