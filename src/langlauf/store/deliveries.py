"""The protocols of deliveries and of receivers of mail. Messages enter the outbox in the transaction of their event.

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
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal


class DeliveryStore(Protocol):
    """The outbox and webhook endpoints. Each verb is one atomic change."""

    async def add_endpoint(self, new: WebhookEndpoint) -> WebhookEndpoint | None:
        """Store an endpoint; None where the org has one for that URL already, or too many."""

    async def change_endpoint(self, change: EndpointChange) -> WebhookEndpoint | None:
        """Change an endpoint of an org; None where there is no such one."""

    async def remove_endpoint(self, org_id: str, endpoint_id: str) -> bool:
        """Delete an endpoint, and give up its pending messages."""

    async def subscribe(self, org_id: str, job_id: str, wanted: Subscription) -> bool | None:
        """Add a subscription to a job, in place of its last one for that channel. Idempotent.

        False where the job has ended, whose messages are written; None where the org has no such job.
        """

    async def claim(self, request: DeliveryClaim) -> list[Delivery]:
        """Claim due messages, so that no lane blocks another; each is to be finished before its claim expires."""

    async def finish(self, end: DeliveryEnd) -> bool:
        """Record the result of an attempt; False where a later attempt was made or the message is settled.

        Repeating it changes nothing and returns the same: the first answer may have been lost.
        """

    async def replay(self, request: DeliveryReplay) -> int:
        """Make settled messages due again, with all their tries; return how many."""

    async def figures(self) -> DeliveryStatistics:
        """Return the state of deliveries over all orgs."""


class MailStore(Protocol):
    """Receivers of mail and their rate limits. Each verb is one atomic change."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Mark an address for an org; False where it is marked so already."""

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Remove a mark; False where there is none."""

    async def admit(self, request: MailAdmission) -> MailRefusal | None:
        """Admit a mail and count it, or return why not. An attempt is counted once, however often it is repeated."""
