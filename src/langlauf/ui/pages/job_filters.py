"""Filters."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import msgspec

from langlauf.api.parameters import read_cursor, write_cursor
from langlauf.domain.instant import Instant, after
from langlauf.domain.read_models import JobFilter
from langlauf.domain.state import Status
from langlauf.problems import Problem
from langlauf.ui.page_request import PageRequest

_HOUR = 3_600.0
#: How far back a list goes, in seconds.
RANGES = {"1h": _HOUR, "24h": 24 * _HOUR, "7d": 7 * 24 * _HOUR, "30d": 30 * 24 * _HOUR}
_MAX_FILTER_LENGTH = 200
#: Pages back that an address remembers; farther back is the newest page.
_MAX_TRAIL = 20


class ListFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of an address that say what is listed. Empty: not asked for."""

    status: str = ""
    analysis: str = ""
    error: str = ""
    q: str = ""
    range: str = ""

    @property
    def asked(self) -> dict[str, str]:
        """Those that were asked for."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}

    def without(self, name: str) -> dict[str, str]:
        """The others."""
        return {other: value for other, value in self.asked.items() if other != name}

    def query(self) -> str:
        """All of them as one text, to come back to."""
        return urlencode(self.asked)

    def which(self, now: Instant, limit: int = 50, before: tuple[Instant, str] | None = None) -> JobFilter:
        """What a store is asked."""
        return JobFilter(
            status=Status(self.status) if self.status else None,
            analysis=self.analysis or None,
            error_code=self.error or None,
            text=self.q or None,
            since=after(now, -RANGES[self.range]) if self.range else None,
            limit=limit,
            before=before,
        )


def parse_filters(values: Mapping[str, str]) -> ListFilters:
    """Filters by name; what is none of ours is not asked for."""
    status, back = values.get("status", ""), values.get("range", "")
    return ListFilters(
        status=status if status in tuple(Status) else "",
        range=back if back in RANGES else "",
        **{name: values.get(name, "").strip()[:_MAX_FILTER_LENGTH] for name in ("analysis", "error", "q")},
    )


def parse_filter_query(text: str) -> ListFilters:
    """The same from a text that `query` made."""
    return parse_filters(dict(parse_qsl(text[: 8 * _MAX_FILTER_LENGTH])))


class ListPosition(msgspec.Struct, frozen=True):
    """Which page of a list: where it starts, and where those before it started."""

    before: tuple[Instant, str] | None
    at: str
    trail: list[str]

    def older(self, cursor: str) -> dict[str, str]:
        """The page after this one."""
        trail = [*self.trail, *([self.at] if self.at else [])][-_MAX_TRAIL:]
        return {"at": cursor, **({"trail": ".".join(trail)} if trail else {})}

    @property
    def newer(self) -> dict[str, str]:
        """The page before this one."""
        if not self.trail:
            return {}
        *trail, at = self.trail
        return {"at": at, **({"trail": ".".join(trail)} if trail else {})}


def list_position(request: PageRequest, org_id: str, filters: ListFilters) -> ListPosition:
    """The page that an address asks for; a place in another list is the first page of this one."""
    asked = request.query_params
    at = asked.get("at", "")
    try:
        before = read_cursor(at, org_id, _cursor_filter(filters)) if at else None
    except Problem:
        before, at = None, ""
    trail = [one for one in asked.get("trail", "").split(".") if one] if at else []
    return ListPosition(before, at, trail[-_MAX_TRAIL:])


def next_cursor(after_: tuple[Instant, str], org_id: str, filters: ListFilters) -> str:
    """Where the next page starts."""
    return write_cursor(after_, org_id, _cursor_filter(filters))


def _cursor_filter(filters: ListFilters) -> JobFilter:
    """The list that a place is in. How far back it goes is left out: it counts from now, and only ends the list."""
    return msgspec.structs.replace(filters.which(0), since=None)
