"""Several jobs, in the order in which they end."""

from collections.abc import Iterable

from langlauf.client.errors import WaitTimeout
from langlauf.client.follow import FeedPages, JobWatch
from langlauf.client.requests import CALL_RETRIES, ApiCall, Deadline

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
