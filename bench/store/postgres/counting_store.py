"""A store that counts its transactions."""

from collections.abc import Sequence
from typing import Any

from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.job import NewJob
from langlauf.store.group_commit import Recording
from langlauf.store.postgres.driver import PostgresStore


class CountingPostgresStore(PostgresStore):
    """Counts the statements that carried writes of jobs, each of them a transaction, connection by connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.calls = {"submit": 0, "claim": 0, "record": 0}

    @property
    def transactions(self) -> int:
        """All of them."""
        return sum(self.calls.values())

    async def _send_submits(self, batch: Sequence[NewJob]) -> Sequence[Any]:
        self.calls["submit"] += 1
        return await super()._send_submits(batch)

    async def _send_records(self, batch: Sequence[Recording]) -> Sequence[Any]:
        self.calls["record"] += 1
        return await super()._send_records(batch)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        claims = await super().claim(request)
        # One that found nothing wrote nothing.
        self.calls["claim"] += bool(claims)
        return claims
