"""One request for a page: who asks, in which language, and how links are written for them."""

from collections.abc import Callable
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request

from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
from langlauf.ui.language import Language
from langlauf.ui.lists.names import FILTERS
from langlauf.ui.local import local_path
from langlauf.ui.taste import Taste

#: Parameters that a change of language keeps.
_KEPT = ("view", "refresh", "next", "from", "to", "v", "event", "org", *FILTERS)


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, and how it is to be spoken to."""

    request: Request
    language: Language
    #: whether the address asks for the language: then the links on the page ask for it too
    chosen: bool
    #: the way from this page to the root, relative, so that a mount point or a proxy's prefix is never in the way
    root: str
    #: how the reader likes pages to be
    taste: Taste = Taste()
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
        kept = {name: asked.getlist(name) for name in _KEPT if name in asked}
        if self.chosen:
            kept["lang"] = [self.language.code]
        kept |= {name: [value] for name, value in query.items()}
        return "?" + urlencode([(name, value) for name, values in kept.items() for value in values if value])

    def way(self) -> str:
        """The way from our root to this very page."""
        scope = self.request.scope
        return local_path(scope["path"].removeprefix(scope.get("root_path", "")) + self.here().removesuffix("?"))
