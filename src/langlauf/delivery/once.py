"""Sending something at once, outside of the outbox: for whoever wants to see what a receiver answers."""

import asyncio
from collections.abc import Callable

from langlauf.clock import monotonic
from langlauf.delivery.webhook import Webhooks
from langlauf.domain.sending import clean_error, excerpt
from langlauf.service.webhooks import Parcel, Tried
from langlauf.telemetry.log import LogEvent, log_event


class SendingOnce:
    """One try, through the guards of every delivery. The channel is made at the first use: most never need it."""

    def __init__(self, make: Callable[[], Webhooks]) -> None:
        self._make = make
        self._channel: Webhooks | None = None

    async def __call__(self, parcel: Parcel) -> Tried:
        """Sends it, and tells what came back. A failure inside a network is told when the time for a try is over."""
        if self._channel is None:
            self._channel = self._make()
        started = monotonic()
        outcome = await self._channel.send_parcel(parcel)
        if outcome.detail is not None:
            if outcome.verdict != "sent":  # how long it took would tell a closed port from one that does not answer
                await asyncio.sleep(max(0.0, started + self._channel.seconds - monotonic()))
            log_event(
                LogEvent.WEBHOOK_TESTED, org_id=parcel.org_id, taken=outcome.verdict == "sent", reason=outcome.detail
            )
        return Tried(
            taken=outcome.verdict == "sent",
            seconds=monotonic() - started if outcome.detail is None else 0.0,
            status_code=outcome.status_code,
            error=clean_error(outcome.error),
            reply=excerpt(outcome.reply) or None,
        )
