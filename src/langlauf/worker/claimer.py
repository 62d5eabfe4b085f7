"""Claims jobs for a worker: with submissions of its process, when there may be others, and by polling."""

from collections.abc import Callable
from typing import Protocol

from langlauf.background import BackgroundLoop
from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest, Lease
from langlauf.hints import Hints
from langlauf.store.standing_claims import StandingClaim
from langlauf.telemetry.log import log_store_failure


class ClaimStore(Protocol):
    """The claims of a store; see `Store`."""

    async def claim(self, request: ClaimRequest) -> list[Claim]: ...

    def stand(self, claim: StandingClaim) -> None: ...

    async def withdraw(self, claim: StandingClaim) -> None: ...


class Claimer:
    """The source of jobs of a worker whose store is in this process."""

    def __init__(
        self,
        store: ClaimStore,
        hints: Hints,
        poll_seconds: float,
        request: ClaimRequest,
        free: Callable[[], int],
        take: Callable[[ClaimBatch], None],
    ) -> None:
        self._store = store
        self._hints = hints
        self._poll_seconds = poll_seconds
        self._claim = StandingClaim(request, free, take)
        #: half of the slots: the worker starts some jobs while others are claimed, also by submissions meanwhile
        self._most = -(-request.slots // 2)
        # A claim under way commits whatever happens to its task: its jobs are run or released, not left.
        self._loop = BackgroundLoop("langlauf-claims", self._look, on_error=self._failed, grace=request.lease_seconds)

    @property
    def alive(self) -> bool:
        """Whether it claims jobs."""
        return self._loop.alive

    async def start(self) -> None:
        """Let the claim stand, and look for jobs that wait."""
        self._store.stand(self._claim)
        await self._loop.start()

    async def stop(self) -> None:
        """Claim no more; returns when executions under way are answered. Safe to repeat."""
        self._loop.finish()
        self._hints.claim_again()
        await self._store.withdraw(self._claim)
        await self._loop.stop()

    def ended(self, lease: Lease, *, written: bool) -> None:
        """Look again for jobs that wait: a slot is free."""
        del lease, written
        self._hints.claim_again()

    async def _look(self) -> None:
        """Claim what waits; then wait until there may be more."""
        # Where no job can have come, none need be looked for.
        if self._claim.slots > 0 and self._claim.emptied_at != self._hints.work_signals:
            execution = self._claim.execute(self._most)
            claims: list[Claim] = []
            try:
                claims = await self._store.claim(execution.request)
            finally:
                execution.answer(claims)
            if len(claims) == execution.request.slots:
                return
        await self._hints.wait_for_work(self._poll_seconds)

    async def _failed(self, error: Exception) -> None:
        log_store_failure(error, trace=True)
        await self._hints.wait_for_work(self._poll_seconds)
