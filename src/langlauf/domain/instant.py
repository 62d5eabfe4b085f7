"""Times are whole microseconds since 1970 in UTC: cheap to store, to compare and to add to.

They become text only where people or other programs read them.
"""

from datetime import UTC, datetime
from functools import lru_cache

Instant = int
SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def after(start: Instant, seconds: float) -> Instant:
    """Return the time so many seconds later."""
    return start + round(seconds * SECOND)


def seconds_between(start: Instant, end: Instant) -> float:
    """Return the seconds from one time to another."""
    return (end - start) / SECOND


@lru_cache(1_024)
def to_datetime(instant: Instant) -> datetime:
    """Return the time as an aware datetime, which encodes to RFC 3339. A job and its events repeat the same times."""
    return datetime.fromtimestamp(instant / SECOND, UTC)


def to_text(instant: Instant) -> str:
    """Return the time in RFC 3339, always with microseconds, so that texts sort like times."""
    return to_datetime(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_text(text: str) -> Instant:
    """Parse RFC 3339. A time without an offset is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return from_datetime(moment)


def from_datetime(moment: datetime) -> Instant:
    """Return an aware datetime as a time."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds
