"""Waiting for a job: read, wait for a hint, read again. A follower that missed every hint is still right."""

import asyncio
import time
from collections.abc import Callable

from langlauf.domain.views import JobView
from langlauf.hints import Hints
from langlauf.service.access import Access
from langlauf.service.tenant import Caller
from langlauf.service.visible import visible
from langlauf.store.protocol import Store

#: Another process may change a job without a hint reaching this one.
_LOOK_AGAIN_SECONDS = 1.0


class Followers:
    """Lets requests wait for what they are interested in, without holding anything of the store."""

    def __init__(self, store: Store, hints: Hints, access: Access) -> None:
        self._store = store
        self._access = access
        self._hints = hints

    @property
    def closing(self) -> bool:
        """Whether the program is about to stop, so that nobody is waited for any more."""
        return self._hints.closing.is_set()

    async def until(
        self, caller: Caller, job_id: str, seconds: float, enough: Callable[[JobView], bool]
    ) -> JobView | None:
        """The job as soon as it is as wished, or as it is when the time is over or the program stops.

        Raises `AccessEnded` where the caller may not see it any more.
        """
        deadline = time.monotonic() + seconds
        tenant = visible(self._store, caller)
        with self._hints.following(job_id) as changed:
            while True:
                changed.clear()
                view = await tenant.job(job_id)
                left = deadline - time.monotonic()
                if view is None or enough(view) or left <= 0 or self._hints.closing.is_set():
                    return view
                try:
                    async with asyncio.timeout(min(left, _LOOK_AGAIN_SECONDS)):
                        await changed.wait()
                except TimeoutError:
                    pass
                await self._access.check(caller)
