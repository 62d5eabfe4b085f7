"""One request for a page: its language, its reader's preferences, how links are written, and filters of lists."""

from collections.abc import Callable, Container, Mapping
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from langlauf.api.requests import read_cursor, write_cursor
from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
from langlauf.domain.instant import Instant, after
from langlauf.domain.read_models import JobFilter
from langlauf.domain.state import Status
from langlauf.problems import Problem
from langlauf.ui.language import LANGUAGES, Language
from langlauf.ui.responses import local_path

THEMES = ("light", "dark")
THEME_COOKIE = "langlauf_theme"
LANGUAGE_COOKIE = "langlauf_language"
SHORTCUTS_COOKIE = "langlauf_shortcuts"
SHORTCUTS_OFF = "off"
#: Parameters of the lists: filters, position, and what a bulk action is about.
_LIST_PARAMETERS = ("status", "analysis", "error", "q", "range", "at", "trail", "do", "job", "group")
#: Parameters that stay in the address when the reader changes the language.
_KEPT_PARAMETERS = ("view", "refresh", "next", "from", "to", "with", "v", "event", "org", *_LIST_PARAMETERS)


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """Theme, language and shortcuts from the reader's cookies; an empty text means the browser's own setting."""

    theme: str = ""
    language: str = ""
    shortcuts: bool = True

    @property
    def next_theme(self) -> str:
        """The theme that the switch in the page header changes to."""
        order = ("", *THEMES)
        return order[(order.index(self.theme) + 1) % len(order)]


def preferences_of(request: Request) -> Preferences:
    """Read the preferences from cookies; an unknown value counts as none."""
    theme = request.cookies.get(THEME_COOKIE, "")
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    return Preferences(
        theme=theme if theme in THEMES else "",
        language=language if language in LANGUAGES else "",
        shortcuts=request.cookies.get(SHORTCUTS_COOKIE) != SHORTCUTS_OFF,
    )


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, with everything its template needs to know about the reader."""

    http: Request
    language: Language
    #: whether the address names the language; then links on the page name it too
    language_in_url: bool
    #: relative path from this page to the root, so that a mount point or a proxy's prefix does not matter
    root: str
    preferences: Preferences = Preferences()
    #: CSRF token for the forms on the page, where there is a session
    csrf: str | None = None
    #: None on public pages
    caller: Caller | None = None
    #: unread messages of the org, counted up to a limit
    unread: int = 0
    #: reserves so many bytes of memory until the page is rendered; raises where there is no room
    reserve_memory: Callable[[int], object] = lambda _: None

    @property
    def query_params(self) -> QueryParams:
        """The query parameters."""
        return self.http.query_params

    @property
    def path_params(self) -> dict[str, str]:
        """The parameters in the path."""
        return self.http.path_params

    @property
    def request_id(self) -> str:
        """The id that finds the request in the log."""
        return str(self.http.scope["langlauf.request_id"])

    @property
    def org(self) -> str | None:
        """The org whose data the page shows."""
        return None if self.caller is None else self.caller.org_id

    def allows(self, scope: str) -> bool:
        """Whether the caller has a scope; pages leave out what it would need."""
        return self.caller is not None and Scope(scope) in self.caller.scopes

    def link(self, *path: str, **query: str) -> str:
        """Return the address of another page."""
        if self.language_in_url:
            query["lang"] = self.language.code
        address = self.root + "/".join(quote(part, safe="") for part in path)
        return f"{address}?{urlencode(query)}" if query else address

    def same_page(self, **query: str) -> str:
        """Return the address of this page with changed parameters; an empty one is left out."""
        given = self.query_params
        kept = {name: given.getlist(name) for name in _KEPT_PARAMETERS if name in given}
        if self.language_in_url:
            kept["lang"] = [self.language.code]
        kept |= {name: [value] for name, value in query.items()}
        return "?" + urlencode([(name, value) for name, values in kept.items() for value in values if value])

    def return_path(self) -> str:
        """Return the path from the root to this page, for a redirect back to it."""
        scope = self.http.scope
        return local_path(scope["path"].removeprefix(scope.get("root_path", "")) + self.same_page().removesuffix("?"))


# -- filters of the job list -------------------------------------------------------------------------------------------

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
