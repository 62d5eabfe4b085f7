"""Standing claims: submissions of the same process are claimed for its workers in the transaction that accepts them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from langlauf.clock import monotonic
from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest
from langlauf.domain.job import NewJob


class StandingClaim:
    """What a worker can run, how many jobs more, and what it does with them; it stands until it is withdrawn."""

    def __init__(self, request: ClaimRequest, free: Callable[[], int], take: Callable[[ClaimBatch], None]) -> None:
        """`free` returns the free slots of this moment; `take` gets jobs, and must not fail."""
        self._request = request
        self._free = free
        self._take = take
        #: slots that executions under way ask for: no two of them ask for the same slot
        self._asked = 0
        self._settled = asyncio.Event()
        self._settled.set()
        #: signals of work by which nothing waited that the worker could have; None where that is not known
        self.emptied_at: int | None = None

    @property
    def slots(self) -> int:
        """How many jobs it may ask for now."""
        return self._free() - self._asked

    def execute(self, most: int | None = None) -> "Execution":
        """Begin an execution, for all free slots or fewer; the caller answers it, whatever happens."""
        self._settled.clear()
        slots = self.slots if most is None else min(self.slots, most)
        self._asked += slots
        return Execution(self, msgspec.structs.replace(self._request, slots=slots))

    def settle(self, execution: "Execution", claims: Sequence[Claim]) -> None:
        """End an execution, and hand its jobs to the worker."""
        self._asked -= execution.request.slots
        if claims:
            self._take(ClaimBatch(list(claims), execution.asked_at))
        if not self._asked:
            self._settled.set()

    async def settled(self) -> None:
        """Return when no execution is under way."""
        await self._settled.wait()


class Execution:
    """One execution of a standing claim, from before it is sent until its answer."""

    def __init__(self, claim: StandingClaim, request: ClaimRequest) -> None:
        self._claim = claim
        self.request = request
        self.asked_at = monotonic()

    def answer(self, claims: Sequence[Claim] = (), *, emptied_at: int | None = None) -> None:
        """Hand the jobs to the worker; `emptied_at` are the signals of work before, where nothing else waited."""
        if emptied_at is not None:
            self._claim.emptied_at = emptied_at
        self._claim.settle(self, claims)


class StandingClaims:
    """The standing claims of this process."""

    def __init__(self) -> None:
        self._claims: list[StandingClaim] = []

    def stand(self, claim: StandingClaim) -> None:
        """Execute a claim with submissions from now on."""
        self._claims.append(claim)

    async def withdraw(self, claim: StandingClaim) -> None:
        """Execute it no more; returns when no execution is under way. Safe to repeat."""
        if claim in self._claims:
            self._claims.remove(claim)
        await claim.settled()

    def joining(self, batch: Sequence[Any], most: int | None = None) -> list[Execution]:
        """Begin executions that join a batch that accepts jobs, at most so many; workers with free slots take turns."""
        if not self._claims or not any(isinstance(operation, NewJob) for operation in batch):
            return []
        joining = [claim for claim in self._claims if claim.slots > 0][:most]
        for claim in joining:
            self._claims.remove(claim)
            self._claims.append(claim)
        return [claim.execute() for claim in joining]
