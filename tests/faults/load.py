"""A steady load: more jobs than slots, each under an idempotency key, whatever happens to the server."""

import asyncio
import random
import uuid
from contextlib import suppress
from typing import Self

from tests.faults.api import Api
from tests.faults.ledger import Ledger

_TIMEOUT = 60.0


class Load:
    """Submits until it is closed, and records every accepted job."""

    def __init__(self, api: Api, ledger: Ledger, chance: random.Random, *, unfinished: int, longest: float) -> None:
        self._api = api
        self._ledger = ledger
        self._chance = chance
        self._unfinished = unfinished
        self._longest = longest
        self._submitted = 0
        self._first = asyncio.Event()
        self._submissions: set[asyncio.Task[None]] = set()
        self.accepted: list[str] = []
        self.replayed = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        await self._first.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.gather(*self._submissions)

    async def _run(self) -> None:
        while True:
            task = asyncio.create_task(self._submit(self._longest * self._chance.random() ** 2))
            self._submissions.add(task)
            task.add_done_callback(self._submissions.discard)
            self._submitted += 1
            await self._ledger.until(lambda: self._submitted - len(self._ledger.ended()) < self._unfinished, _TIMEOUT)

    async def _submit(self, seconds: float) -> None:
        job = await self._api.submit("work", key=uuid.uuid4().hex, input={"seconds": seconds})
        self.accepted.append(job["job_id"])
        self.replayed += job["replayed"]
        self._first.set()
