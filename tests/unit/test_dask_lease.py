"""The lease of chunks on a Dask worker: signs of life that come, stay away, and come late."""

import asyncio
import sys

from langlauf.worker.dask.heartbeat import HeartbeatMonitor
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor
from tests.support.processes import alive

SECONDS = 2.0


class Signs:
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
    """A count that stands still, although it can be read, is no sign of life."""

    async def body() -> None:
        supervisor, signs = Supervisor(), Signs()
        lease = HeartbeatMonitor(signs.read, SECONDS, supervisor)
        try:
            with lease.watched():
                assert await lease.holds()
                kept = await _sleeper(supervisor)
                with lease.holding(kept):
                    signs.rises = True
                    await asyncio.sleep(1.1 * SECONDS)
                    assert kept.pid is not None
                    assert alive(kept.pid), "it was renewed for longer than a lease"
                    signs.rises = False
                    assert await kept.ended == -9
                assert not await lease.holds()
        finally:
            await supervisor.close()

    asyncio.run(body())


def test_a_sign_that_comes_late_is_told_from_one_in_time() -> None:
    """What ended meanwhile did not end by its own doing; something new may begin."""

    async def body() -> None:
        supervisor, signs = Supervisor(), Signs()
        lease = HeartbeatMonitor(signs.read, SECONDS / 4, supervisor)
        assert await lease.holds()
        first = lease.lapses
        signs.away = True
        await asyncio.sleep(lease.left)
        assert not await lease.holds(), "after it waited for a lease"
        signs.away = False
        signs.count += 1
        assert await lease.holds()
        assert lease.lapses == first + 1

    asyncio.run(body())
