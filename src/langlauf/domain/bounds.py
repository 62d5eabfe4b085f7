"""How much one job may leave behind: past its bounds, progress and partials are no longer stored; its end always is."""

from enum import IntEnum
from typing import Literal

import msgspec

#: The bound that a job has reached: `partials` ends its partial snapshots, `events` its progress as well.
LimitReached = Literal["events", "partials"]
MOST_EVENTS = 100_000
MOST_PARTIAL_BYTES = 1_073_741_824
#: A log with fewer events has no room for a start, some progress and an end.
LEAST_EVENTS = 10
_SHARE_FOR_THE_END = 10
_MOST_FOR_THE_END = 100
_LEAST_FOR_THE_END = 4


class JobBounds(msgspec.Struct, frozen=True):
    """The bounds of one job."""

    events: int = MOST_EVENTS
    partial_bytes: int = MOST_PARTIAL_BYTES

    @property
    def last_news(self) -> int:
        """The highest number of an event that tells of progress: it says that the bound is reached.

        The rest is for attempts, cancels and the end, which are stored whatever the bound.
        """
        share = self.events // _SHARE_FOR_THE_END
        return self.events - min(_MOST_FOR_THE_END, max(_LEAST_FOR_THE_END, share))


class WriteResult(IntEnum):
    """What became of a write of an attempt; false where its lease is gone and the write was refused."""

    REFUSED = 0
    WRITTEN = 1
    #: the attempt holds its lease, and its job stores no further partials
    PARTIALS_FULL = 2
    #: the same, and no further progress
    EVENTS_FULL = 3


def write_result(limit_reached: str | None) -> WriteResult:
    """What a write of an attempt that holds its lease is answered."""
    if limit_reached is None:
        return WriteResult.WRITTEN
    return WriteResult.EVENTS_FULL if limit_reached == "events" else WriteResult.PARTIALS_FULL


def utf8_size(*texts: str | None) -> int:
    """How many bytes texts take in UTF-8."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts if text is not None)
