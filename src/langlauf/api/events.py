"""The log of a job, the feed of an org, as pages or as server-sent events, and the inbox of an org.

A stream is a position in durable events. It holds at most one page, and nothing of the store while it waits; a slow
client lags in the log, not in a buffer. However a stream ends, a client that reconnects with its last event id gets the
next event, also if events commit late or retention removes some; after the store was restored from a copy or a backup,
some events may come twice, with the same ids.
"""

import base64
import binascii
import hashlib
from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext, json_response
from langlauf.api.request_schemas import ReadBody
from langlauf.api.requests import (
    choice_parameter,
    int_header,
    int_parameter,
    list_mark,
    read_position,
    refuse_unknown_parameters,
    text_header,
    text_parameter,
    write_position,
)
from langlauf.api.response_schemas import FeedResponse, InboxReadResponse, InboxResponse
from langlauf.api.sse import (
    HEADERS,
    EventPage,
    NextPage,
    PagedEventStream,
    encode,
    encode_outbound,
    opening,
    position,
    wants_stream,
)
from langlauf.api.wire import inbox_out
from langlauf.auth.caller import Caller
from langlauf.domain.event import OUTBOUND, EventType, FeedPage, FeedPosition, FeedRequest, event_source, to_cloud_event
from langlauf.domain.instant import Instant, from_text
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.problems import bad_request
from langlauf.server.asgi import watch_client
from langlauf.service.follower import JobFollower, OrgChanges, OrgFollower
from langlauf.service.single_flight import SingleFlight

#: The size of a page, in events and in bytes; the last event may exceed it. A stream never holds more.
PAGE_EVENTS, PAGE_BYTES = 100, 64 * 1024


class JobEventStreams:
    """The job event streams of one application."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._pages: SingleFlight[EventPage[int]] = SingleFlight(lambda page: page.last is not None)

    async def respond(self, request: Request, caller: Caller, view: JobView) -> Response:
        """Stream from the caller's position, or return 204 where no event will ever follow."""
        refuse_unknown_parameters(request, "after", "limit")
        if "limit" in request.query_params:
            raise bad_request(
                "limit is for JSON pages; leave it out for an event stream, which goes on until the job ends.", "limit"
            )
        job, newest = view.job, view.job.event_seq
        after = int_parameter(request, "after", default=0, lowest=0, highest=newest)
        # A client that reconnects keeps its URL, so the header counts over the parameter.
        after = int_header(request, "Last-Event-ID", default=after, highest=newest)
        if job.terminal:
            rest = await self._context.services.reads.of(caller).log(job.job_id, after=after, limit=1, most_bytes=1)
            if not rest.events:
                return Response(status_code=204, headers=HEADERS)
        return JobEventStream(self._context, caller, view, after, partial(self._next_page, caller, job.job_id))

    async def _next_page(self, caller: Caller, job_id: str, after: int) -> EventPage[int]:
        """Return the page after a number; concurrent streams of one job share one read."""

        async def read() -> EventPage[int]:
            reads = self._context.services.reads.of(caller)
            return encode(await reads.log(job_id, after=after, limit=PAGE_EVENTS, most_bytes=PAGE_BYTES))

        return await self._pages.get((caller.org_id, job_id, after), read)


class JobEventStream(PagedEventStream[JobFollower, int]):
    """The stream of one job's log."""

    def __init__(
        self, context: ApiContext, caller: Caller, view: JobView, after: int, next_page: NextPage[int]
    ) -> None:
        super().__init__(context, caller, opening("the log of a job"), after, next_page, job_id=view.job.job_id)
        self._job = (view.job.org_id, view.job.job_id)

    def following(self) -> JobFollower:
        """Follow the job in its own org, also for callers without an org."""
        follower = self.followers.following(self.caller, self._job[1], self._is_news)
        follower.job = self._job
        return follower

    def _is_news(self, pulse: JobFingerprint | None) -> bool:
        return pulse is None or pulse.event_seq > self.position or pulse.events_expired


#: Words for a position: before the oldest kept event, and after the newest.
START, LATEST = "start", "latest"
_PAGE_EVENTS = 100
_LONGEST_PLACE = 1_024
_LONGEST_TYPES = 512
_KINDS = {name: kind for kind, out in OUTBOUND.items() for name in (str(out), out.rpartition(".")[2])}
_Number = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_Seq = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_position_decoder = msgspec.json.Decoder(tuple[str, str, _Number, _Number, str, _Seq])


class FeedHandler:
    """The feed of each org, as pages and as a stream."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._services = context.services
        self._source = event_source(context.settings.public_url, context.prefix)
        self._pages: SingleFlight[EventPage[FeedPosition | None]] = SingleFlight(lambda page: page.last is not None)

    async def events(self, request: Request, caller: Caller) -> Response:
        """Return a page of the feed, at once or when there is an event, or a stream."""
        refuse_unknown_parameters(request, "after", "limit", "types", "wait")
        kinds = _kinds_in(text_parameter(request, "types", _LONGEST_TYPES))
        text = text_parameter(request, "after", _LONGEST_PLACE) or START
        if wants_stream(request):
            return await self._stream(request, caller, kinds, text)
        feed_request = FeedRequest(
            after=_decode_feed_position(text, caller.org_id, "after"),
            latest=text == LATEST,
            kinds=kinds,
            limit=int_parameter(request, "limit", default=50, lowest=1, highest=200),
        )
        wait = int_parameter(request, "wait", default=0, lowest=0, highest=30)
        page = await self._held(request, caller, feed_request, wait)
        body = FeedResponse(
            request_id=caller.request_id,
            events=[to_cloud_event(event, self._source) for event in page.events],
            next_after=encode_feed_position(page.after, caller.org_id),
            more=page.more,
        )
        return json_response(body)

    async def _held(self, request: Request, caller: Caller, feed_request: FeedRequest, wait: int) -> FeedPage:
        """Return the next page; with `wait`, as soon as it has an event."""
        reads, news = self._services.reads.of(caller), OrgChanges()
        followers = self._services.followers
        if feed_request.latest:
            end = await reads.feed(feed_request)
            if not wait:
                return end
            feed_request = msgspec.structs.replace(feed_request, after=end.after, latest=False)

        with followers.following_org(caller, news) as follower:

            async def read() -> tuple[FeedPage, bool]:
                nonlocal feed_request
                page = await reads.feed(feed_request)
                feed_request = msgspec.structs.replace(feed_request, after=page.after)
                news.held = page.held
                return page, bool(page.events) or page.more

            watch = partial(watch_client, request.scope, request.receive)
            return await followers.held(follower, wait, read, poll=watch)

    async def _stream(self, request: Request, caller: Caller, kinds: frozenset[EventType], text: str) -> Response:
        for name in ("limit", "wait"):
            if name in request.query_params:
                raise bad_request(
                    f"{name} is for JSON pages; leave it out for an event stream, which goes on by itself.", name
                )
        # A client that reconnects keeps its URL, so the header counts over the parameter.
        known = text_header(request, "Last-Event-ID", _LONGEST_PLACE)
        text = known or text
        after = _decode_feed_position(text, caller.org_id, "Last-Event-ID" if known else "after")
        first = opening("what happens to the jobs of an org")
        if text == LATEST:
            after = (await self._services.reads.of(caller).feed(FeedRequest(latest=True))).after
            first += position(encode_feed_position(after, caller.org_id))
        news = OrgChanges()
        return FeedStream(self._context, caller, first, after, partial(self._next_page, caller, kinds, news), news)

    async def _next_page(
        self, caller: Caller, kinds: frozenset[EventType], news: OrgChanges, after: FeedPosition | None
    ) -> EventPage[FeedPosition | None]:
        """Return the page after a position; concurrent streams of one org share one read."""

        async def read() -> EventPage[FeedPosition | None]:
            feed_request = FeedRequest(after=after, kinds=kinds, limit=_PAGE_EVENTS)
            page = await self._services.reads.of(caller).feed(feed_request)
            return self._encode(page, caller.org_id, moved=page.after != after)

        page = await self._pages.get((caller.org_id, kinds, after), read)
        news.held = page.held
        return page

    def _encode(self, page: FeedPage, org_id: str, *, moved: bool) -> EventPage[FeedPosition | None]:
        body = b"".join(
            encode_outbound(to_cloud_event(event, self._source), encode_feed_position(event.place, org_id))
            for event in page.events
        )
        if moved and not page.events:  # skipped events need not be read again
            body = position(encode_feed_position(page.after, org_id))
        return EventPage(body, page.after if moved else None, page.more, over=False, held=page.held)


class FeedStream(PagedEventStream[OrgFollower, FeedPosition | None]):
    """The stream of an org's feed. It ends only by its lifetime."""

    def __init__(
        self,
        context: ApiContext,
        caller: Caller,
        first: bytes,
        after: FeedPosition | None,
        next_page: NextPage[FeedPosition | None],
        news: OrgChanges,
    ) -> None:
        look_again = context.settings.stream_heartbeat
        super().__init__(context, caller, first, after, next_page, look_again=look_again)
        self._news = news

    def following(self) -> OrgFollower:
        """Follow all jobs of the org."""
        return self.followers.following_org(self.caller, self._news)


def encode_feed_position(place: FeedPosition | None, org_id: str) -> str:
    """Encode a position for a client: for the feed of that org, and without any permission."""
    if place is None:
        return START
    parts = (_mark(org_id), *msgspec.structs.astuple(place))
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def _decode_feed_position(text: str, org_id: str, name: str) -> FeedPosition | None:
    if text in (START, LATEST):
        return None
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        org_mark, life, mark, at, job_id, seq = _position_decoder.decode(decoded)
    except (binascii.Error, ValueError):
        raise bad_request(
            f"{name} is not a place in this feed; leave it out to start at the oldest event.", name
        ) from None
    if org_mark != _mark(org_id):
        raise bad_request(
            f"{name} is a place in the feed of another org; leave it out to start at the oldest event.", name
        )
    return FeedPosition(life, mark, at, job_id, seq)


def _mark(org_id: str) -> str:
    return hashlib.sha256(org_id.encode()).hexdigest()[:8]


def _kinds_in(text: str | None) -> frozenset[EventType]:
    if text is None:
        return frozenset(OUTBOUND)
    names = text.split(",")
    for name in names:
        if name not in _KINDS:
            known = ", ".join(out.rpartition(".")[2] for out in OUTBOUND.values())
            raise bad_request(f"types does not know {name!r}; known are {known}.", "types")
    return frozenset(_KINDS[name] for name in names)


# -- inbox -------------------------------------------------------------------------------------------------------------

_LONGEST_PAGE = 200
#: Unread messages are counted up to here.
MOST_COUNTED = 1_000


class InboxHandlers:
    """Handlers under `/analyze/inbox`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._inbox = context.services.inbox

    async def list(self, request: Request, caller: Caller) -> Response:
        """Return the org's messages for people, newest first. Reading does not mark them."""
        refuse_unknown_parameters(request, "limit", "cursor", "unread")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=_LONGEST_PAGE)
        unread = choice_parameter(request, "unread", ("true", "false")) == "true"
        cursor = text_parameter(request, "cursor")
        mark = list_mark(caller.org_id, "inbox", "unread" if unread else "")
        before = read_position(cursor, mark) if cursor else None
        page = await self._inbox.page(caller, before=before, limit=limit, unread=unread)
        next_cursor = None if page.after is None else write_position(page.after, mark)
        headers = {}
        if next_cursor:
            query = request.url.include_query_params(cursor=next_cursor).query
            headers["Link"] = f'<{self._context.links(request).base}/inbox?{query}>; rel="next"'
        body = InboxResponse(
            request_id=caller.request_id,
            notifications=[inbox_out(message) for message in page.messages],
            unread=await self._unread(caller),
            next_cursor=next_cursor,
        )
        return json_response(body, headers=headers)

    async def read(self, request: Request, caller: Caller) -> Response:
        """Mark messages as read for the whole org. Repeating it, or an unknown id, changes nothing."""
        refuse_unknown_parameters(request)
        sent: ReadBody = read_input(ReadBody, await self._context.body(request, optional=True))
        ids = [] if sent.notification_ids is msgspec.UNSET else sent.notification_ids
        one = [] if sent.notification_id is msgspec.UNSET else [sent.notification_id]
        until = None if sent.until is msgspec.UNSET else _instant(sent.until)
        if not ids and not one and until is None:
            raise bad_request("Say which messages to mark as read: notification_id, notification_ids or until.")
        changed = await self._inbox.read_some(caller, [*one, *ids], until)
        return json_response(
            InboxReadResponse(request_id=caller.request_id, changed=changed, unread=await self._unread(caller))
        )

    async def _unread(self, caller: Caller) -> int:
        return await self._context.services.reads.of(caller).unread(most=MOST_COUNTED)


def _instant(moment: datetime) -> Instant:
    """Return the instant; one before the epoch marks nothing."""
    return max(0, from_text(moment.isoformat()))
