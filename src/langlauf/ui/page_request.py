"""One request for a page: its language, its reader's preferences, and how links are written."""

from collections.abc import Callable
from urllib.parse import quote, urlencode

import msgspec
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


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen; an empty text leaves it to the browser."""

    theme: str = ""
    language: str = ""
    shortcuts: bool = True

    @property
    def next_theme(self) -> str:
        """What the switch in the head of a page changes to."""
        order = ("", *THEMES)
        return order[(order.index(self.theme) + 1) % len(order)]


def preferences_of(request: Request) -> Preferences:
    """What the browser remembers; a value that is none of ours is no choice."""
    theme = request.cookies.get(THEME_COOKIE, "")
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    return Preferences(
        theme=theme if theme in THEMES else "",
        language=language if language in LANGUAGES else "",
        shortcuts=request.cookies.get(SHORTCUTS_COOKIE) != SHORTCUTS_OFF,
    )


#: Parameters that say what is listed, and where.
LIST_PARAMETERS = ("status", "analysis", "error", "q", "range", "at", "trail", "do", "job", "group")
#: Parameters that a change of language keeps.
_KEPT_PARAMETERS = ("view", "refresh", "next", "from", "to", "v", "event", "org", *LIST_PARAMETERS)


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, and how it is to be spoken to."""

    request: Request
    language: Language
    #: whether the address asks for the language: then the links on the page ask for it too
    chosen: bool
    #: the way from this page to the root, relative, so that a mount point or a proxy's prefix is never in the way
    root: str
    #: how the reader likes pages to be
    taste: Preferences = Preferences()
    #: the mark of the forms on the page, where somebody is signed in
    csrf: str | None = None
    #: who asks; nobody on pages that are open to everybody
    caller: Caller | None = None
    #: how many messages of the org nobody has seen, as far as they were counted
    unread: int = 0
    #: takes so many bytes of memory for as long as the page is made; raises where there is no room
    hold: Callable[[int], object] = lambda _: None

    @property
    def request_id(self) -> str:
        """The id that finds the request in the log."""
        return str(self.request.scope["langlauf.request_id"])

    @property
    def org(self) -> str | None:
        """The org whose data the page shows."""
        return None if self.caller is None else self.caller.org_id

    def may(self, scope: str) -> bool:
        """Whether the reader is allowed to do something: what they may not do is not offered."""
        return self.caller is not None and Scope(scope) in self.caller.scopes

    def link(self, *path: str, **query: str) -> str:
        """The address of another page."""
        if self.chosen:
            query["lang"] = self.language.code
        address = self.root + "/".join(quote(part, safe="") for part in path)
        return f"{address}?{urlencode(query)}" if query else address

    def here(self, **query: str) -> str:
        """The address of this page with other parameters; an empty one is left out."""
        asked = self.request.query_params
        kept = {name: asked.getlist(name) for name in _KEPT_PARAMETERS if name in asked}
        if self.chosen:
            kept["lang"] = [self.language.code]
        kept |= {name: [value] for name, value in query.items()}
        return "?" + urlencode([(name, value) for name, values in kept.items() for value in values if value])

    def way(self) -> str:
        """The way from our root to this very page."""
        scope = self.request.scope
        return local_path(scope["path"].removeprefix(scope.get("root_path", "")) + self.here().removesuffix("?"))
