"""The heartbeat monitor of a Dask worker: heartbeats that come, stop, and come late."""

import asyncio
import sys

from langlauf.worker.dask.chunk_server import HeartbeatMonitor
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor
from tests.support.processes import alive

SECONDS = 2.0


class Heartbeats:
    """The variable on the scheduler, as a test sets it."""

    def __init__(self) -> None:
        self.count = 1
        self.rises = False
        self.away = False

    async def read(self, _: float) -> int:
        """What a Dask worker sees of it."""
        if self.away:
            raise OSError("the scheduler is away")
        self.count += self.rises
        return self.count


async def _sleeper(supervisor: Supervisor) -> SupervisedProcess:
    kept = supervisor.start((sys.executable, "-c", "import time; time.sleep(600)"), (0, 1, 2))
    await supervisor.started(kept)
    return kept


def test_a_process_lives_while_the_count_goes_up_and_no_longer() -> None:
    """A count that stands still, although it can be read, is no heartbeat."""

    async def body() -> None:
        supervisor, beats = Supervisor(), Heartbeats()
        monitor = HeartbeatMonitor(beats.read, SECONDS, supervisor)
        try:
            async with monitor.watched():
                assert await monitor.is_alive()
                kept = await _sleeper(supervisor)
                with monitor.bound(kept):
                    beats.rises = True
                    await asyncio.sleep(1.1 * SECONDS)
                    assert kept.pid is not None
                    assert alive(kept.pid), "it was renewed for longer than a lease"
                    beats.rises = False
                    assert await kept.ended == -9
                assert not await monitor.is_alive()
        finally:
            await supervisor.close()

    asyncio.run(body())


def test_a_late_heartbeat_is_counted_as_a_lapse() -> None:
    """Processes that ended meanwhile are not at fault; a new process may start."""

    async def body() -> None:
        supervisor, beats = Supervisor(), Heartbeats()
        monitor = HeartbeatMonitor(beats.read, SECONDS / 4, supervisor)
        assert await monitor.is_alive()
        first = monitor.lapses
        beats.away = True
        await asyncio.sleep(monitor.left)
        assert not await monitor.is_alive(), "after it waited for a lease"
        beats.away = False
        beats.count += 1
        assert await monitor.is_alive()
        assert monitor.lapses == first + 1

    asyncio.run(body())
