"""One request for a page: its language, its reader's preferences, and how links are written."""

from collections.abc import Callable
from urllib.parse import quote, urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
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
