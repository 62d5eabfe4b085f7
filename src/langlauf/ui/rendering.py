"""How every page is made: its language, its links, its headers, and HTML where something goes wrong."""

import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from langlauf.clock import new_word
from langlauf.domain.access import Scope
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.keys import ALPHABET
from langlauf.http.context import Context
from langlauf.http.mounting import path_within
from langlauf.http.problems import TITLES, VARY, Problem, not_found
from langlauf.http.sessions import Browsing, keep_cookie
from langlauf.service.tenant import Caller
from langlauf.telemetry import Fact, tell
from langlauf.ui.formatting import time_tag
from langlauf.ui.language import LANGUAGES, Language, load_language, preferred, quality
from langlauf.ui.local import local_path

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
PRIVATE = "private, no-store"
PUBLIC = "public, max-age=300"
STYLESHEET = "/static/langlauf.css"
_FOR_EVER = "public, max-age=31536000, immutable"
_RETRY_SECONDS = "5"
#: Parameters that a change of language keeps.
_KEPT = ("view", "refresh", "next")
#: Ties the form for signing in to the browser it was given to.
NONCE_COOKIE = "langlauf_signin"
_NONCE = re.compile(r"[0-9A-Za-z]{24}", re.ASCII)
_NONCE_SECONDS = 3_600


#: Without a referrer a browser would not say either that a form comes from this very origin.
_WITH_FORM = {"Referrer-Policy": "same-origin"}


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, and how it is to be spoken to."""

    request: Request
    language: Language
    #: whether the address asks for the language: then the links on the page ask for it too
    chosen: bool
    #: the way from this page to the root, relative, so that a mount point or a proxy's prefix is never in the way
    root: str
    #: the mark of the forms on the page, where somebody is signed in
    csrf: str | None = None

    @property
    def request_id(self) -> str:
        """The id that finds the request in the log."""
        return str(self.request.scope["langlauf.request_id"])

    def link(self, *path: str, **query: str) -> str:
        """The address of another page."""
        if self.chosen:
            query["lang"] = self.language.code
        address = self.root + "/".join(quote(part, safe="") for part in path)
        return f"{address}?{urlencode(query)}" if query else address

    def here(self, **query: str) -> str:
        """The address of this page with other parameters; an empty one is left out."""
        kept = {name: self.request.query_params[name] for name in _KEPT if name in self.request.query_params}
        if self.chosen:
            kept["lang"] = self.language.code
        kept |= query
        return "?" + urlencode({name: value for name, value in kept.items() if value})


TenantPage = Callable[[Visit, Caller], Awaitable[Response]]
PublicPage = Callable[[Visit], Awaitable[Response]]


class Rendering:
    """Makes routes of pages. A page raises `Problem`; what the reader gets is HTML."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._languages = {code: load_language(code) for code in LANGUAGES}
        self._style = (files(__package__) / "static" / "langlauf.css").read_bytes()
        self._style_version = hashlib.sha256(self._style).hexdigest()[:16]
        self._templates = Environment(
            loader=PackageLoader(__package__),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["instant"] = time_tag
        self._templates.filters["code_marks"] = code_marks

    def tenant_page(self, path: str, show: TenantPage, *, missing: str) -> Route:
        """A page of one org's data. `missing` is the text key of its 404, the same for foreign and unknown ids."""

        async def endpoint(request: Request) -> Response:
            visit, org = self._visit(request, path), None
            try:
                caller = await self._context.caller(request, Scope.READ, how=Browsing(page=True))
                org = caller.org_id
                if caller.grant is not None and caller.grant.session_id is not None:
                    mark = await self._context.services.sessions.form_mark(caller.grant.session_id)
                    visit = msgspec.structs.replace(visit, csrf=mark)
                return await show(visit, caller)
            except Problem as problem:
                if problem.code == "unauthorized":
                    return await self.sign_in(visit, onward=_way_to(visit), headers=problem.headers)
                return self._error(visit, problem, missing, org)
            except StoreUnavailable as error:
                tell(Fact.STORE_UNAVAILABLE, logging.ERROR, reason=str(error))
                return self._error(visit, _unavailable(), missing, org)

        return Route(path, endpoint)

    def public_page(self, path: str, *, missing: str = "missing.page", **by_method: PublicPage) -> Route:
        """A page that holds nothing of an org, and so needs no key: what answers it, by method."""

        async def endpoint(request: Request) -> Response:
            visit = self._visit(request, path)
            show = by_method["GET" if request.method == "HEAD" else request.method]
            try:
                return await show(visit)
            except Problem as problem:
                return self._error(visit, problem, missing, None)

        return Route(path, endpoint, methods=list(by_method))

    async def sign_in(
        self,
        visit: Visit,
        status: int = 401,
        *,
        onward: str,
        org: str = "",
        flaw: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The page that asks for a key, in the place of one that needs it, or at its own address."""
        kept = visit.request.cookies.get(NONCE_COOKIE, "")
        nonce = kept if _NONCE.fullmatch(kept) else new_word(ALPHABET, 24)
        mark = await self._context.services.sessions.sign_in_mark(nonce)
        values = {"onward": onward, "signin_org": org, "flaw": flaw, "mark": mark}
        response = self.page(visit, "signin.html", status, headers={**_WITH_FORM, **(headers or {})}, **values)
        keep_cookie(visit.request, self._context.settings, response, NONCE_COOKIE, nonce, _NONCE_SECONDS)
        return response

    def missing(self, request: Request) -> Response:
        """The page about an address that does not exist."""
        visit = self._visit(request, path_within(request.scope))
        return self._error(visit, not_found(), "missing.page", None)

    def page(
        self,
        visit: Visit,
        template: str,
        status: int = 200,
        *,
        cache: str = PRIVATE,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> Response:
        """A page with the headers that every page has."""
        fields = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Referrer-Policy": "no-referrer",
            "Cache-Control": cache,
            "Vary": f"{VARY}, Accept-Language",
            "Content-Language": visit.language.code,
            **(_WITH_FORM if visit.csrf is not None else {}),
            **(headers or {}),
        }
        return HTMLResponse(self.html(visit, template, **values), status, headers=fields)

    def html(self, visit: Visit, template: str, **values: Any) -> str:
        """A page's text."""
        shared = {
            "visit": visit,
            "t": visit.language.say,
            "link": visit.link,
            "languages": self._languages,
            "stylesheet": f"{visit.root}{STYLESHEET.removeprefix('/')}?v={self._style_version}",
            "org": None,
        }
        return self._templates.get_template(template).render({**shared, **values})

    async def stylesheet(self, request: Request) -> Response:
        """The one style sheet; under the address of its content it never changes."""
        current = request.query_params.get("v") == self._style_version
        headers = {"Cache-Control": _FOR_EVER if current else "no-cache"}
        return Response(self._style, headers=headers, media_type="text/css")

    def _visit(self, request: Request, path: str) -> Visit:
        wished = request.query_params.get("lang")
        chosen = wished in LANGUAGES
        code = wished if wished in LANGUAGES else preferred(request.headers.get("accept-language", ""))
        root = "../" * (path.count("/") - 1) or "./"
        return Visit(request=request, language=self._languages[code], chosen=chosen, root=root)

    def _error(self, visit: Visit, problem: Problem, missing: str, org: str | None) -> Response:
        """The page of an error. One for 404 says nothing about what was asked for."""
        key = missing if problem.code == "not_found" else f"problem.{problem.code}.title"
        return self.page(
            visit, "error.html", problem.status, headers=problem.headers, problem=problem, title_key=key, org=org
        )


def is_browser(request: Request) -> bool:
    """Whether a person reads the answer: browsers name HTML among what they accept, programs do not."""
    wishes = (wish.partition(";") for header in request.headers.getlist("accept") for wish in header.split(","))
    return any(kind.strip().lower() == "text/html" and quality(weight) > 0 for kind, _, weight in wishes)


def _way_to(visit: Visit) -> str:
    """The way from our root to the page that was asked for."""
    scope = visit.request.scope
    return local_path(scope["path"].removeprefix(scope.get("root_path", "")) + visit.here().removesuffix("?"))


def _unavailable() -> Problem:
    return Problem(503, "unavailable", TITLES["unavailable"], headers={"Retry-After": _RETRY_SECONDS})


def code_marks(text: str) -> Markup:
    """Text in which `backticks` mark code, as descriptions of the API have it."""
    parts = text.split("`")
    marked = (Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts))
    return Markup("").join(marked)
