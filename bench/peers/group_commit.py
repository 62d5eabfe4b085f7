"""Group commit of both bare prototypes: all that wait while a flush is under way go into the next one."""

import asyncio

MOST = 500


class GroupCommit:
    """Calls `flush` with what was added meanwhile; each caller gets its own answer."""

    def __init__(self, flush):
        self._flush = flush
        self._waiting = []
        self._some = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def add(self, item):
        """Return a future of the answer to an item."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        self._some.set()
        return answer

    async def _run(self):
        while True:
            await self._some.wait()
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            if not self._waiting:
                self._some.clear()
            found = await self._flush([item for item, _ in batch])
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)
