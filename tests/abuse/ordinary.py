"""An ordinary client beside the others: what it is answered, and how long that takes."""

import asyncio
import time
import uuid
from abc import abstractmethod
from typing import Self

import httpx2

from tests.faults.plan import Plan
from tests.faults.report import Figure, at_least, at_most, never


class Asking:
    """Asks a server on its own connections, one round after the other, until it is left."""

    pause = 0.02

    def __init__(self, url: str) -> None:
        self._http = httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False)
        self._stop = asyncio.Event()
        self.times: list[float] = []
        self.failed: list[str] = []

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task
        await self._http.aclose()

    async def _run(self) -> None:
        while not self._stop.is_set():
            await self._round()

    @abstractmethod
    async def _round(self) -> None:
        """What is asked once."""


class Ordinary(Asking):
    """Asks in turn for a submission, its status and /health."""

    async def _round(self) -> None:
        body = {"analysis": "echo", "input": {"value": uuid.uuid4().hex}}
        answer = await self._ask("POST", "/analyze", json=body)
        if answer is not None:
            await self._ask("GET", answer.headers["location"])
        await self._ask("GET", "/health")

    async def _ask(self, method: str, path: str, **more: object) -> httpx2.Response | None:
        began = time.monotonic()
        try:
            headers = {"Prefer": "respond-async"}
            answer = await self._http.request(method, path, headers=headers, **more)  # type: ignore[arg-type]  # json alone
        except httpx2.TransportError as error:
            self.failed.append(f"{method} {path}: {error!r}")
            return None
        finally:
            self.times.append(time.monotonic() - began)
            await asyncio.sleep(self.pause)
        if answer.is_error:
            self.failed.append(f"{method} {path}: {answer.status_code}")
            return None
        return answer

    def figures(self, *, least: int, slowest: float = 1.0) -> list[Figure]:
        """What it found; a client that hardly asked has shown nothing."""
        return [
            at_least("requests of an ordinary client", len(self.times), least),
            never("of them failed", len(self.failed), len(self.times)),
            at_most("their 99th percentile", percentile(self.times, 0.99), slowest, " s"),
        ]


class Prober(Asking):
    """Asks for /health and /ready, at a steady pace."""

    pause = 0.05

    async def _round(self) -> None:
        for path in ("/health", "/ready"):
            began = time.monotonic()
            try:
                answer = await self._http.get(path)
                if answer.status_code != httpx2.codes.OK:
                    self.failed.append(f"{path}: {answer.status_code}")
            except httpx2.TransportError as error:
                self.failed.append(f"{path}: {error!r}")
            self.times.append(time.monotonic() - began)
        await asyncio.sleep(self.pause)

    def figures(self, *, slowest: float = 1.0) -> list[Figure]:
        """What it found."""
        return [
            at_least("asked for /health and /ready", len(self.times), 10),
            never("of them failed", len(self.failed), len(self.times)),
            at_most("their 99th percentile", percentile(self.times, 0.99), slowest, " s"),
            at_most("the longest of them", max(self.times, default=0.0), 2 * slowest, " s"),
        ]


def slowest(plan: Plan) -> float:
    """What an answer may take: a second; a share that runs among other tests has no machine of its own."""
    return 1.0 if plan.scale >= 1 else 3.0


def percentile(times: list[float], share: float) -> float:
    """The time that so many did not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] if times else float("inf")
