"""Following a job or an org by long polls, several jobs in the order in which they end, and lists in pages.

The server holds its reply until something has changed. Followers survive a restart of the server: the position is kept
here, so that no event is missed or repeated.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from langlauf.client.errors import Unavailable, Unreachable, WaitTimeout
from langlauf.client.models import (
    EventsEnvelope,
    FeedEnvelope,
    InboxEnvelope,
    InboxMessage,
    JobEvent,
    JobsEnvelope,
    JobState,
    JobSummary,
    OrgEvent,
    StateEnvelope,
)
from langlauf.client.requests import (
    CALL_RETRIES,
    FOLLOW_RETRIES,
    NOT_MODIFIED,
    ApiCall,
    ClientRequest,
    Deadline,
    RetryPolicy,
    ServerReply,
    decode,
    send,
)
from langlauf.domain.event import FINAL_EVENTS
from langlauf.domain.state import TERMINAL

T = TypeVar("T")
#: Under the 30 s that a server holds a long poll at most, and under the idle timeout of common proxies.
_LONG_POLL_SECONDS = 25
_EVENTS_PER_PAGE = 1_000
_ITEMS_PER_PAGE = 200
START = "start"
#: A server that ends a long poll at once is not asked again at once.
_QUICK_SECONDS, _PAUSE_SECONDS = 0.2, 0.5


class JobWatch:
    """The states of one job; `next_state` returns when the job has changed.

    Until the first state, `first` is the retry policy.
    """

    def __init__(self, path: str, job_id: str, timeout: float | None, first: RetryPolicy) -> None:
        self._path = path
        self._job_id = job_id
        self._first = first
        self._etag: str | None = None
        self._pause = 0.0
        self.deadline = Deadline(timeout)
        #: the last known state of the job
        self.state: JobState | None = None

    @property
    def ended(self) -> bool:
        """Whether the last state is final."""
        return self.state is not None and self.state.status in TERMINAL

    def next_state(self) -> ApiCall[JobState]:
        """Return the current state on the first call, later the next one; raise at the deadline."""
        while True:
            if self.state is not None and self.deadline.over:
                raise self._timed_out()
            sent_at = time.monotonic()
            reply = yield from self.send(self._request())
            if reply.status != NOT_MODIFIED:
                self._etag, self._pause = reply.headers.get("etag"), 0.0
                self.state = decode(reply, StateEnvelope).job
                return self.state
            self._pause = _PAUSE_SECONDS if time.monotonic() - sent_at < _QUICK_SECONDS else 0.0

    def final_state(self) -> ApiCall[JobState]:
        """Return the final state."""
        while True:
            state = yield from self.next_state()
            if self.ended:
                return state

    def send(self, request: ClientRequest) -> ApiCall[ServerReply]:
        """Return the reply to a request about the job, with the retries of a follower."""
        policy = self._first if self.state is None else FOLLOW_RETRIES
        try:
            return (yield from send(request, policy, self.deadline))
        except (Unreachable, Unavailable):
            if self.deadline.over:
                raise self._timed_out() from None
            raise

    def _timed_out(self) -> WaitTimeout:
        return WaitTimeout(self._job_id, self.deadline.seconds or 0.0, self.state)

    def _request(self) -> ClientRequest:
        if self._etag is None:
            return ClientRequest(path=self._path)
        left = self.deadline.left
        hold = _LONG_POLL_SECONDS if left is None else min(_LONG_POLL_SECONDS, math.ceil(left))
        return ClientRequest(
            path=self._path,
            params={"wait": hold},
            headers={"If-None-Match": self._etag},
            delay=self.deadline.shorten(self._pause),
            extra=hold,
            at_most=self.deadline.reply_timeout(),
        )


class JobEventLog:
    """The events of one job, in order, each once. It ends with the event that ends the job."""

    def __init__(self, path: str, watch: JobWatch, after: int) -> None:
        self._path = path
        self._watch = watch
        self._behind = True
        #: the number of the last event returned
        self.position = after
        self.ended = False

    def next_events(self) -> ApiCall[list[JobEvent]]:
        """Return the next events as soon as there are any; an empty list only at the end."""
        while not self.ended:
            events = yield from (self._page() if self._behind else self._latest())
            if events:
                self.position = events[-1].event_seq
                self.ended = events[-1].event_type in FINAL_EVENTS
                return events
        return []

    def _page(self) -> ApiCall[list[JobEvent]]:
        """Return a page of stored events."""
        params = {"after": self.position, "limit": _EVENTS_PER_PAGE}
        reply = yield from self._watch.send(ClientRequest(path=f"{self._path}/events", params=params))
        page = decode(reply, EventsEnvelope)
        self._behind = len(page.events) == _EVENTS_PER_PAGE
        self.ended = not page.events and (page.expired or self._watch.ended)
        return page.events

    def _latest(self) -> ApiCall[list[JobEvent]]:
        """Return new events; the job's state includes its latest ones."""
        state = yield from self._watch.next_state()
        events = [event for event in state.events if event.event_seq > self.position]
        if events and events[0].event_seq > self.position + 1:
            self._behind = True
            return []
        self.ended = not events and self._watch.ended
        return events


class FeedPages:
    """The event feed of an org from a place on; with `follow`, until the timeout or the limit.

    `place` is behind the last page whose events were all returned: continuing from there misses nothing, and may repeat
    the events of one page.
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
        first: RetryPolicy,
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError("limit must be 1 or more")
        self._path = path
        self._types = {"types": ",".join(types)} if types else {}
        self._follow = follow
        self._left = limit
        self._deadline = Deadline(timeout)
        self._policy = first
        self._next = after or START
        self._behind = True
        self._pause = 0.0
        self.place = self._next
        self.ended = False

    def find_place(self) -> ApiCall[None]:
        """Learn the place that `latest` stands for, without waiting for an event."""
        page = yield from self._page()
        self._next = self.place = page.next_after
        self._behind = page.more

    def next_events(self) -> ApiCall[list[OrgEvent]]:
        """Return the next events as soon as there are any; an empty list only at the end."""
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

    def mark_returned(self) -> None:
        """Move `place` behind the last page: all its events were returned."""
        self.place = self._next

    def _page(self) -> ApiCall[FeedEnvelope]:
        hold = 0 if self._behind else math.ceil(self._deadline.shorten(_LONG_POLL_SECONDS))
        size = _ITEMS_PER_PAGE if self._left is None else min(self._left, _ITEMS_PER_PAGE)
        request = ClientRequest(
            path=self._path,
            params={"after": self._next, "limit": size, "wait": hold, **self._types},
            delay=self._deadline.shorten(self._pause),
            extra=hold,
        )
        sent_at = time.monotonic()
        reply = yield from send(request, self._policy, self._deadline)
        quick = not self._behind and time.monotonic() - sent_at < _QUICK_SECONDS
        page = decode(reply, FeedEnvelope)
        self._pause = _PAUSE_SECONDS if quick and not page.events else 0.0
        self._policy = FOLLOW_RETRIES if self._follow else CALL_RETRIES
        return page


class ListPages(Generic[T]):
    """A list of an org, newest first, in pages; at most `limit` entries."""

    def __init__(
        self,
        path: str,
        filters: Mapping[str, str],
        limit: int | None,
        read_page: Callable[[ServerReply], tuple[list[T], str | None]],
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError("limit must be 1 or more")
        self._path = path
        self._filters = filters
        self._left = limit
        self._read_page = read_page
        self._cursor: str | None = None
        self.ended = False

    def next_page(self) -> ApiCall[list[T]]:
        """Return the next page; `ended` is set with the last one."""
        size = _ITEMS_PER_PAGE if self._left is None else min(self._left, _ITEMS_PER_PAGE)
        params: dict[str, str | int] = {**self._filters, "limit": size}
        if self._cursor is not None:
            params["cursor"] = self._cursor
        found, self._cursor = self._read_page((yield from send(ClientRequest(path=self._path, params=params))))
        if self._left is not None:
            self._left -= len(found)
        self.ended = self._cursor is None or self._left == 0
        return found


def page_of_jobs(reply: ServerReply) -> tuple[list[JobSummary], str | None]:
    """Return a page of jobs and the cursor of the next one."""
    page = decode(reply, JobsEnvelope)
    return page.jobs, page.next_cursor


def page_of_messages(reply: ServerReply) -> tuple[list[InboxMessage], str | None]:
    """Return a page of messages and the cursor of the next one."""
    page = decode(reply, InboxEnvelope)
    return page.notifications, page.next_cursor


# -- several jobs ------------------------------------------------------------------------------------------------------

ENDS = ("completed", "failed", "canceled")


class Completions:
    """Finds which jobs have ended: once by their states, from then on by the event feed of the org."""

    def __init__(self, job_paths: Iterable[tuple[str, str]], feed: FeedPages, timeout: float | None) -> None:
        self._paths = dict(job_paths)
        self._unasked = list(self._paths)
        self._left = set(self._paths)
        self._feed = feed
        self._deadline = Deadline(timeout)
        self._placed = False

    @property
    def ended(self) -> bool:
        """Whether all have ended."""
        return not self._left

    def next_ended(self) -> ApiCall[list[str]]:
        """Return the ids of jobs that have ended, as soon as there are any; raise at the deadline."""
        if not self._placed:
            # Before the states are read, so that no end falls in between.
            yield from self._feed.find_place()
            self._placed = True
        while self._left:
            found = yield from (self._ask_next() if self._unasked else self._hear())
            if found:
                self._left -= set(found)
                return found
            if self._deadline.over:
                raise WaitTimeout(min(self._left), self._deadline.seconds or 0.0, None)
        return []

    def _ask_next(self) -> ApiCall[list[str]]:
        job_id = self._unasked.pop(0)
        watch = JobWatch(self._paths[job_id], job_id, None, CALL_RETRIES)
        yield from watch.next_state()
        return [job_id] if watch.ended else []

    def _hear(self) -> ApiCall[list[str]]:
        events = yield from self._feed.next_events()
        return list(dict.fromkeys(event.subject for event in events if event.subject in self._left))
