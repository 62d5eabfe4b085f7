"""A job's log as server-sent events: what is stored, then what happens, until the job ends or the client leaves.

A stream is a position in the durable log. It holds one page at the most, and nothing of the store while it waits; a
client that reads slowly is behind in the log, not in a buffer. However a stream ends, a client that comes back with the
number of the last event it has gets the next one.
"""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.requests import header_number, refuse_unknown, whole_number
from langlauf.api.sse import EventPage, encode, opening
from langlauf.api.streaming import HEADERS, NextPage, PagedStream
from langlauf.auth.caller import Caller
from langlauf.domain.views import JobView, Pulse
from langlauf.problems import bad_request
from langlauf.service.follow import JobFollower
from langlauf.service.sharing import SharedReads

#: A page: so many events, or a little over so many bytes. A stream never holds more.
PAGE_EVENTS, PAGE_BYTES = 100, 64 * 1024


class Streams:
    """The event streams of one application."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pages: SharedReads[EventPage[int]] = SharedReads(lambda page: page.last is not None)

    async def answer(self, request: Request, caller: Caller, view: JobView) -> Response:
        """A stream from where the caller is, or 204 where nothing follows and nothing ever will."""
        refuse_unknown(request, "after", "limit")
        if "limit" in request.query_params:
            raise bad_request("limit is for pages; an event stream goes on until the job ends.", "limit")
        job, newest = view.job, view.job.event_seq
        after = whole_number(request, "after", default=0, lowest=0, highest=newest)
        # A client that connects again keeps its address, so what it adds to it counts.
        after = header_number(request, "Last-Event-ID", default=after, highest=newest)
        if job.terminal:
            rest = await self._context.services.reads.of(caller).log(job.job_id, after=after, limit=1, most_bytes=1)
            if not rest.events:
                return Response(status_code=204, headers=HEADERS)
        return EventStream(self._context, caller, view, after, partial(self._next_page, caller, job.job_id))

    async def _next_page(self, caller: Caller, job_id: str, after: int) -> EventPage[int]:
        """What follows a number; streams of one job that wait for the same read it together."""

        async def read() -> EventPage[int]:
            reads = self._context.services.reads.of(caller)
            return encode(await reads.log(job_id, after=after, limit=PAGE_EVENTS, most_bytes=PAGE_BYTES))

        return await self._pages.get((caller.org_id, job_id, after), read)


class EventStream(PagedStream[JobFollower, int]):
    """One stream of a job's log."""

    def __init__(self, context: Context, caller: Caller, view: JobView, after: int, next_page: NextPage[int]) -> None:
        super().__init__(context, caller, opening("the log of a job"), after, next_page, job_id=view.job.job_id)
        self._job = (view.job.org_id, view.job.job_id)

    def following(self) -> JobFollower:
        """Follows the job; what a caller that needs no org sees is in the job's own."""
        follower = self.followers.following(self.caller, self._job[1], self._is_news)
        follower.job = self._job
        return follower

    def _is_news(self, pulse: Pulse | None) -> bool:
        return pulse is None or pulse.event_seq > self.position or pulse.events_expired
