"""Following an org: what happens to its jobs, over all of them, as it happens."""

import math
import time
from collections.abc import Sequence

from langlauf.client.exchange import CALLING, FOLLOWING, Deadline, Patience, Request, Talk, ask, read
from langlauf.client.shapes import FeedAnswer, OrgEvent

START = "start"
#: Under the 30 s a server holds an answer at most, and under the idle time of common proxies.
_LONGEST_HOLD = 25
_LONGEST_PAGE = 200
#: A server that gives up holding an answer at once is not asked again at once.
_QUICK_SECONDS, _PAUSE_SECONDS = 0.2, 0.5


class FeedPages:
    """The feed of an org from a place on; with `follow` it goes on until the time is over or enough was seen.

    `place` is behind the last page whose events were all handed out: whoever goes on from there misses nothing, and may
    see those of one page again.
    """

    def __init__(
        self,
        path: str,
        after: str | None,
        types: Sequence[str],
        *,
        follow: bool,
        limit: int | None,
        timeout: float | None,
        first: Patience,
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError("limit must be 1 or more")
        self._path = path
        self._types = {"types": ",".join(types)} if types else {}
        self._follow = follow
        self._left = limit
        self._deadline = Deadline(timeout)
        self._patience = first
        self._next = after or START
        self._behind = True
        self._pause = 0.0
        self.place = self._next
        self.ended = False

    def next_events(self) -> Talk[list[OrgEvent]]:
        """The next events, as soon as there are any; an empty list only at the end."""
        self.place = self._next
        while not self.ended:
            page = yield from self._page()
            self._next = page.next_after
            self._behind = page.more
            if self._left is not None:
                self._left -= len(page.events)
            self.ended = self._left == 0 or self._deadline.over or not (self._follow or page.more)
            if page.events:
                return page.events
            self.place = self._next
        return []

    def finish(self) -> None:
        """Everything that came was handed out."""
        self.place = self._next

    def _page(self) -> Talk[FeedAnswer]:
        hold = 0 if self._behind else math.ceil(self._deadline.shorten(_LONGEST_HOLD))
        size = _LONGEST_PAGE if self._left is None else min(self._left, _LONGEST_PAGE)
        request = Request(
            path=self._path,
            params={"after": self._next, "limit": size, "wait": hold, **self._types},
            delay=self._deadline.shorten(self._pause),
            extra=hold,
        )
        asked_at = time.monotonic()
        reply = yield from ask(request, self._patience, self._deadline)
        quick = not self._behind and time.monotonic() - asked_at < _QUICK_SECONDS
        page = read(reply, FeedAnswer)
        self._pause = _PAUSE_SECONDS if quick and not page.events else 0.0
        self._patience = FOLLOWING if self._follow else CALLING
        return page
