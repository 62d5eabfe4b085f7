"""Following a job: each change of its state, and each entry of its log, as they happen.

Both ask the server to hold its answer until something differs, and both come through a restart of the server: what was
seen is known here, so nothing is missed and nothing comes twice.
"""

import math
import time

from langlauf.client.errors import Unavailable, Unreachable, WaitTimeout
from langlauf.client.exchange import FOLLOWING, NOT_MODIFIED, Deadline, Patience, Reply, Request, Talk, ask, read
from langlauf.client.shapes import Event, EventsAnswer, JobState, StateAnswer
from langlauf.domain.event import FINAL_EVENTS
from langlauf.domain.state import TERMINAL

#: Under the 30 s a server holds an answer at most, and under the idle time of common proxies.
_LONGEST_HOLD = 25
_LONGEST_PAGE = 1_000
#: A server that gives up holding an answer at once is not asked again at once.
_QUICK_SECONDS, _PAUSE_SECONDS = 0.2, 0.5


class Watch:
    """The states of one job. A look returns when the job differs from the last look.

    Until the job was seen once, `first` says how long an absent server is put up with.
    """

    def __init__(self, path: str, job_id: str, timeout: float | None, first: Patience) -> None:
        self._path = path
        self._job_id = job_id
        self._first = first
        self._etag: str | None = None
        self._pause = 0.0
        self.deadline = Deadline(timeout)
        #: how the job was last seen
        self.state: JobState | None = None

    @property
    def ended(self) -> bool:
        """Whether the last state is final."""
        return self.state is not None and self.state.status in TERMINAL

    def look(self) -> Talk[JobState]:
        """The next state: at once for the first, later when there is another; raises when the time is over."""
        while True:
            if self.state is not None and self.deadline.over:
                raise self._timed_out()
            asked_at = time.monotonic()
            reply = yield from self.ask(self._request())
            if reply.status != NOT_MODIFIED:
                self._etag, self._pause = reply.headers.get("etag"), 0.0
                self.state = read(reply, StateAnswer).job
                return self.state
            self._pause = _PAUSE_SECONDS if time.monotonic() - asked_at < _QUICK_SECONDS else 0.0

    def end(self) -> Talk[JobState]:
        """The final state."""
        while True:
            state = yield from self.look()
            if self.ended:
                return state

    def ask(self, request: Request) -> Talk[Reply]:
        """An answer about the job, with the patience of a follower."""
        patience = self._first if self.state is None else FOLLOWING
        try:
            return (yield from ask(request, patience, self.deadline))
        except (Unreachable, Unavailable):
            if self.deadline.over:
                raise self._timed_out() from None
            raise

    def _timed_out(self) -> WaitTimeout:
        return WaitTimeout(self._job_id, self.deadline.seconds or 0.0, self.state)

    def _request(self) -> Request:
        if self._etag is None:
            return Request(path=self._path)
        left = self.deadline.left
        hold = _LONGEST_HOLD if left is None else min(_LONGEST_HOLD, math.ceil(left))
        return Request(
            path=self._path,
            params={"wait": hold},
            headers={"If-None-Match": self._etag},
            delay=self.deadline.shorten(self._pause),
            extra=hold,
            at_most=self.deadline.patience(),
        )


class EventLog:
    """The log of one job, in order, each event once. It ends with the event that ends the job."""

    def __init__(self, path: str, watch: Watch, after: int) -> None:
        self._path = path
        self._watch = watch
        self._behind = True
        #: the number of the last event handed out
        self.position = after
        self.ended = False

    def next_events(self) -> Talk[list[Event]]:
        """The next events, as soon as there are any; an empty list only at the end."""
        while not self.ended:
            events = yield from (self._page() if self._behind else self._latest())
            if events:
                self.position = events[-1].event_seq
                self.ended = events[-1].event_type in FINAL_EVENTS
                return events
        return []

    def _page(self) -> Talk[list[Event]]:
        """What is stored already."""
        params = {"after": self.position, "limit": _LONGEST_PAGE}
        reply = yield from self._watch.ask(Request(path=f"{self._path}/events", params=params))
        page = read(reply, EventsAnswer)
        self._behind = len(page.events) == _LONGEST_PAGE
        self.ended = not page.events and (page.expired or self._watch.ended)
        return page.events

    def _latest(self) -> Talk[list[Event]]:
        """What happens next; a status brings the latest events along."""
        state = yield from self._watch.look()
        events = [event for event in state.events if event.event_seq > self.position]
        if events and events[0].event_seq > self.position + 1:
            self._behind = True
            return []
        self.ended = not events and self._watch.ended
        return events
