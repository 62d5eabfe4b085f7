"""A way out: webhooks, mail. Each knows how to send one message, and tells what became of it as a value."""

from typing import Protocol

from langlauf.domain.delivery import Delivery
from langlauf.domain.sending import DeliveryOutcome


class Channel(Protocol):
    """Sends messages of one kind."""

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Sends it once, within a time of its own. What goes wrong is told, not raised."""


class Silent:
    """A way out that nobody has set up."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, delivery: Delivery) -> DeliveryOutcome:  # noqa: ARG002
        """Sends nothing, and says why."""
        return DeliveryOutcome(verdict="suppressed", error=self._reason)
