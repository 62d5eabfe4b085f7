"""A worker as a store sees it: a claim that stands, and what it has got."""

import asyncio

from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest
from langlauf.store.protocol import Store
from langlauf.store.standing_claims import StandingClaim


class Standing:
    """Lets a claim stand that has a slot less with each job that it gets."""

    def __init__(self, store: Store, request: ClaimRequest) -> None:
        self.claims: list[Claim] = []
        self.claim = StandingClaim(request, lambda: request.slots - len(self.claims), self._take)
        self._store = store
        self._came = asyncio.Event()
        store.stand(self.claim)

    def _take(self, handed: ClaimBatch) -> None:
        self.claims += handed.claims
        self._came.set()

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs that it has got."""
        return [one.lease.job_id for one in self.claims]

    async def came(self) -> None:
        """Return when it has got a job."""
        await self._came.wait()
        self._came.clear()

    async def end(self) -> list[Claim]:
        """Let it stand no more, and return what it has got."""
        await self._store.withdraw(self.claim)
        return self.claims
