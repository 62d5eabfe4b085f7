"""A worker tells that it is there, and that it goes; a store that is away costs it nothing but reports."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.health import WorkerReport, WorkerStatus
from langlauf.domain.provenance import CodeVersion
from langlauf.worker.heartbeat import PresenceReporter
from tests.support.live import GATES, live
from tests.support.processes import eventually
from tests.support.stores import query


class Listener:
    """Hears what a worker tells; `away` makes it fail."""

    def __init__(self) -> None:
        self.said: list[WorkerReport | str] = []
        self.away = False
        self.heard = asyncio.Event()

    async def save_report(self, report: WorkerReport) -> None:
        await self._hear(report)

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        raise AssertionError(f"a report has no {codes}")

    async def remove(self, worker_id: str) -> None:
        await self._hear(worker_id)

    async def seen(self) -> list[WorkerStatus]:
        return []

    async def _hear(self, said: WorkerReport | str) -> None:
        self.heard.set()
        if self.away:
            raise StoreUnavailable("away")
        self.said.append(said)

    async def next(self) -> None:
        """Waits for the next word."""
        self.heard.clear()
        async with asyncio.timeout(60):
            await self.heard.wait()


def _with_presence(every: float, scene: Callable[[PresenceReporter, Listener], Awaitable[None]]) -> Listener:
    async def main() -> Listener:
        listener = Listener()
        presence = PresenceReporter(
            listener, "w-1", analyses=("survey",), slots=8, every=every, busy=lambda: 3, now=lambda: 7
        )
        await presence.start()
        await listener.next()
        await scene(presence, listener)
        await presence.leave()
        assert not presence.alive
        return listener

    return asyncio.run(main())


def test_reports_end_with_the_removal() -> None:
    """It reports at once, says that it stops as soon as it does, and goes."""

    async def scene(presence: PresenceReporter, listener: Listener) -> None:
        presence.draining()
        await listener.next()

    first, second, last = _with_presence(60.0, scene).said
    assert isinstance(first, WorkerReport)
    assert (first.slots, first.busy, first.analyses, first.started_at) == (8, 3, ("survey",), 7)
    assert isinstance(second, WorkerReport)
    assert (first.stopping, second.stopping, last) == (False, True, "w-1")


def test_reports_go_on_after_an_outage() -> None:
    """Reports go on, and so does the worker."""

    async def scene(_: PresenceReporter, listener: Listener) -> None:
        listener.away = True
        await listener.next()
        listener.away = False
        await listener.next()

    said = _with_presence(0.01, scene).said
    assert len(said) >= 3
    assert said[-1] == "w-1"


def _workers(folder: Path) -> list[tuple[object, ...]]:
    return query(folder / "store.db", "SELECT worker_id, busy, stopping, analyses FROM workers")


def test_a_server_is_seen_while_it_works_and_gone_afterwards(tmp_path: Path) -> None:
    """One row for its worker, which counts what it runs."""
    with live(tmp_path, LANGLAUF_LEASE_SECONDS="1") as server:
        server.wait(server.submit("echo", query="x")["job_id"])
        server.submit("gated", gate="presence")
        GATES.wait_until_reached("presence")
        eventually(lambda: [busy for _, busy, _, _ in _workers(tmp_path)] == [1])
        [(_, _, stopping, analyses)] = _workers(tmp_path)
        assert stopping == 0
        assert '"gated"' in str(analyses)
        GATES.open("presence")
    assert _workers(tmp_path) == []
