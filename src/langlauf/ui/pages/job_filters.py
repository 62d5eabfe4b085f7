"""Filters of the job list and its position, read from the address and written into links."""

from collections.abc import Container, Mapping
from urllib.parse import parse_qsl, urlencode

import msgspec

from langlauf.api.requests import read_cursor, write_cursor
from langlauf.domain.instant import Instant, after
from langlauf.domain.read_models import JobFilter
from langlauf.domain.state import Status
from langlauf.problems import Problem
from langlauf.ui.page_request import PageRequest

_HOUR = 3_600.0
#: Time ranges in seconds.
RANGES = {"1h": _HOUR, "24h": 24 * _HOUR, "7d": 7 * 24 * _HOUR, "30d": 30 * 24 * _HOUR}
_MAX_FILTER_LENGTH = 200
#: Previous pages that an address remembers; before them comes the newest page.
_MAX_TRAIL = 20


class ListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters in the address; empty where not set."""

    status: str = ""
    analysis: str = ""
    error: str = ""
    q: str = ""
    range: str = ""

    @property
    def asked(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}

    def without(self, name: str) -> dict[str, str]:
        """Return the other filters."""
        return {other: value for other, value in self.asked.items() if other != name}

    def query(self) -> str:
        """Return all filters as one query string."""
        return urlencode(self.asked)

    def which(self, now: Instant, limit: int = 50, before: tuple[Instant, str] | None = None) -> JobFilter:
        """Return the filters as a query of the store."""
        return JobFilter(
            status=Status(self.status) if self.status else None,
            analysis=self.analysis or None,
            error_code=self.error or None,
            text=self.q or None,
            since=after(now, -RANGES[self.range]) if self.range else None,
            limit=limit,
            before=before,
        )


def unknown_filters(values: Mapping[str, str]) -> dict[str, str]:
    """Return the filters whose value is not known here; the list is shown without them."""
    known: dict[str, Container[str]] = {"status": tuple(Status), "range": RANGES}
    given = {name: values.get(name, "")[:_MAX_FILTER_LENGTH] for name in known}
    return {name: value for name, value in given.items() if value and value not in known[name]}


def parse_filters(values: Mapping[str, str]) -> ListFilters:
    """Parse filters by name; those with an unknown value are left out."""
    status, back = values.get("status", ""), values.get("range", "")
    return ListFilters(
        status=status if status in tuple(Status) else "",
        range=back if back in RANGES else "",
        **{name: values.get(name, "").strip()[:_MAX_FILTER_LENGTH] for name in ("analysis", "error", "q")},
    )


def parse_filter_query(text: str) -> ListFilters:
    """Parse a query string that `query` returned."""
    return parse_filters(dict(parse_qsl(text[: 8 * _MAX_FILTER_LENGTH])))


class ListPosition(msgspec.Struct, frozen=True):
    """The page of a list: its cursor, and the cursors of the pages before."""

    before: tuple[Instant, str] | None
    at: str
    trail: list[str]

    def older(self, cursor: str) -> dict[str, str]:
        """Return the parameters of the next page."""
        trail = [*self.trail, *([self.at] if self.at else [])][-_MAX_TRAIL:]
        return {"at": cursor, **({"trail": ".".join(trail)} if trail else {})}

    @property
    def newer(self) -> dict[str, str]:
        """The parameters of the previous page."""
        if not self.trail:
            return {}
        *trail, at = self.trail
        return {"at": at, **({"trail": ".".join(trail)} if trail else {})}


def list_position(request: PageRequest, org_id: str, filters: ListFilters) -> ListPosition:
    """Return the position in the address; a cursor of another list means the first page."""
    asked = request.query_params
    at = asked.get("at", "")
    try:
        before = read_cursor(at, org_id, _cursor_filter(filters)) if at else None
    except Problem:
        before, at = None, ""
    trail = [one for one in asked.get("trail", "").split(".") if one] if at else []
    return ListPosition(before, at, trail[-_MAX_TRAIL:])


def next_cursor(after_: tuple[Instant, str], org_id: str, filters: ListFilters) -> str:
    """Return the cursor of the next page."""
    return write_cursor(after_, org_id, _cursor_filter(filters))


def _cursor_filter(filters: ListFilters) -> JobFilter:
    """Return the filters that a cursor belongs to, without the time range, which moves with the clock."""
    return msgspec.structs.replace(filters.which(0), since=None)
