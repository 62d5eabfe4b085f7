"""The feed of an org: its outbound events over all jobs, in the order in which they came to be seen."""

from contextlib import suppress

import msgspec

from langlauf.domain.event import STATE_AFTER, Event, EventType
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.outbound import OUTBOUND, CloudEvent, cloud_event

#: A place of another store says when, not where: reading goes on so much earlier, and what comes twice has the same id.
FEED_OVERLAP: Instant = 60 * SECOND
#: Events that are looked at for a page, however few of them are of the wanted kinds.
FEED_SCAN_LIMIT = 1_000


class FeedPosition(msgspec.Struct, frozen=True):
    """A place in a feed: behind one event, which need not be there any more."""

    #: which store counted the mark, and in which life of it
    life: str
    #: the order of commits as that store counts it
    mark: int
    #: when the event occurred
    at: Instant
    job_id: str
    event_seq: int


class FeedEvent(msgspec.Struct, frozen=True):
    """An event with the place behind it."""

    event: Event
    place: FeedPosition
    #: what the job had to show when it failed; the events of snapshots name theirs themselves
    result_id: str | None = None


class FeedPage(msgspec.Struct, frozen=True):
    """The next part of a feed."""

    events: list[FeedEvent]
    #: where to go on, also where nothing was found; None while there is nothing to be behind
    after: FeedPosition | None
    #: it was cut short, so there may be more already
    more: bool
    #: something is committed that may not be told yet, because what comes before it is not
    held: bool = False


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to give. Without a place the feed begins with the oldest; `latest` gives where it ends now."""

    after: FeedPosition | None = None
    latest: bool = False
    kinds: frozenset[EventType] = frozenset(OUTBOUND)
    limit: int = 50


class _Told(msgspec.Struct):
    result_id: str | None = None


_told = msgspec.json.Decoder(_Told)


def to_cloud_event(told: FeedEvent, source: str) -> CloudEvent:
    """A stored event as the world outside gets it."""
    event, result_id = told.event, told.result_id
    with suppress(msgspec.MsgspecError):  # what an earlier system wrote may be anything
        result_id = _told.decode(event.payload_json).result_id or result_id
    return cloud_event(
        event_id=event.event_id,
        kind=event.event_type,
        job_id=event.job_id,
        org_id=event.org_id,
        status=STATE_AFTER[event.event_type],
        event_seq=event.event_seq,
        occurred_at=event.occurred_at,
        trace_id=event.trace_id,
        result_id=result_id,
        source=source,
    )
