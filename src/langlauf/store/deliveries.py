"""What every store promises about deliveries and receivers of mail. Messages come into the outbox with their change.

Endpoints and the log of deliveries are tenant data: they are read through `TenantReads`.
"""

from typing import Protocol

from langlauf.domain.delivery import (
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryReplay,
    DeliveryStatistics,
    EndpointChange,
    WebhookEndpoint,
)
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal


class DeliveryStore(Protocol):
    """The outbox, and who is called. Each verb is one atomic change."""

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        """Keeps an endpoint; None where the org has one for that address already, or too many."""

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        """Changes an endpoint of an org; None where there is no such one."""

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        """Forgets an endpoint, and gives up what waits for it."""

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        """Hands out messages that are due, no lane holding up another, each to be ended before its claim is over."""

    async def finish(self, end: DeliveryEnd) -> bool:
        """Notes how an attempt went; False where another attempt was made meanwhile, or the message is settled.

        Saying the same once more changes nothing, and is answered as before: an answer may have been lost.
        """

    async def replay(self, wish: DeliveryReplay) -> int:
        """Makes settled messages due again, with all their tries; tells how many."""

    async def figures(self) -> DeliveryStatistics:
        """How sending goes over all orgs."""


class MailStore(Protocol):
    """Who may be written to, and how often. Each verb is one atomic change."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Marks an address for an org; False where it is marked so already."""

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Takes a mark away; False where there is none."""

    async def admit(self, wish: MailAdmission) -> MailRefusal | None:
        """Lets a mail out and counts it, or tells why not. The same attempt is counted once, however often it asks."""
