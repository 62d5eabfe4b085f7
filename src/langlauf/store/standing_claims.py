"""Standing claims: a job submitted in this process is claimed in the transaction that accepts it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from langlauf.clock import monotonic
from langlauf.domain.attempt import ClaimBatch, ClaimRequest
from langlauf.domain.job import NewJob


class StandingClaim:
    """A claim that has not got a job yet."""

    def __init__(self, request: ClaimRequest) -> None:
        self.request = request
        self.handed: asyncio.Future[ClaimBatch] = asyncio.get_running_loop().create_future()
        #: since when a running batch includes it
        self.asked_at: float | None = None
        #: set while no batch includes it, and whether it joins another one
        self.answered = asyncio.Event()
        self.stands = True


class StandingClaims:
    """The claims of this process that wait for a job."""

    def __init__(self) -> None:
        self._offers: list[StandingClaim] = []

    async def stand(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> ClaimBatch:
        """Wait for a job while `idle()` lasts, and then for a batch that includes the claim."""
        offer = StandingClaim(request)
        self._offers.append(offer)
        idling = asyncio.create_task(idle())
        try:
            waited_for: set[asyncio.Future[Any]] = {idling, offer.handed}
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            offer.stands = False
            if offer.asked_at is not None:  # the batch may find no job, and there may never be another
                await offer.answered.wait()
            return offer.handed.result() if offer.handed.done() else ClaimBatch([], monotonic())
        finally:
            idling.cancel()
            self._offers.remove(offer)

    def joining(self, batch: Sequence[Any]) -> list[StandingClaim]:
        """Return the claims that join a batch that accepts jobs; `answer` resolves them."""
        if not self._offers or not any(isinstance(operation, NewJob) for operation in batch):
            return []
        joining = [
            offer for offer in self._offers if offer.asked_at is None and offer.stands and not offer.handed.done()
        ]
        for offer in joining:
            offer.asked_at = monotonic()
            offer.answered.clear()
        return joining

    def answer(self, joined: Sequence[StandingClaim], answers: Sequence[Any]) -> None:
        """Resolve the claims that got jobs; the others keep standing."""
        for offer, answer in zip(joined, answers, strict=True):
            asked_at, offer.asked_at = offer.asked_at, None
            if isinstance(answer, list) and answer and asked_at is not None:
                offer.handed.set_result(ClaimBatch(answer, asked_at))
            offer.answered.set()
