"""Renders every page: language, links, headers, and HTML where something goes wrong."""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from langlauf.api.context import ApiContext
from langlauf.api.requests import SMALL_FORM, read_form
from langlauf.auth.browser import CSRF_FIELD, BrowserCheck, set_cookie
from langlauf.auth.caller import Caller
from langlauf.clock import new_word
from langlauf.domain.access import KEY_ALPHABET, Scope
from langlauf.domain.errors import ResponseMemoryFull, StoreUnavailable
from langlauf.problems import TITLES, VARY, Problem, not_found
from langlauf.server.large_response import limit_response_memory, response_memory_full
from langlauf.server.mounting import path_within
from langlauf.telemetry.log import log_store_failure
from langlauf.ui.assets import Assets
from langlauf.ui.formatting import machine_time, time_tag
from langlauf.ui.language import LANGUAGES, load_language, preferred, quality
from langlauf.ui.page_request import PageRequest, preferences_of

#: Nothing of a page is code unless it is a file of ours. Pictures may stand in the page itself: its icon does.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: Our own origin is told which page a form was on; nobody else is told anything.
_REFERRER_POLICY = "same-origin"
PRIVATE = "private, no-store"
PUBLIC = "public, max-age=300"
_RETRY_SECONDS = "5"
#: Ties the form for signing in to the browser it was given to.
NONCE_COOKIE = "langlauf_signin"
_NONCE = re.compile(r"[0-9A-Za-z]{24}", re.ASCII)
_NONCE_SECONDS = 3_600
#: Unread messages are counted up to this; beyond it the page shows a plus.
MAX_UNREAD_COUNT = 99


TenantPage = Callable[[PageRequest, Caller], Awaitable[Response]]
PublicPage = Callable[[PageRequest], Awaitable[Response]]
#: Does what a form asks for; the fields of the form by name.
FormPage = Callable[[PageRequest, Caller, Mapping[str, str]], Awaitable[Response]]


class PageRenderer:
    """Makes routes of pages. A page raises `Problem`; what the reader gets is HTML."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._languages = {code: load_language(code) for code in LANGUAGES}
        self.assets = Assets()
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
            return await self._answer(self._visit(request, path), missing, Scope.READ, show, BrowserCheck(page=True))

        return Route(path, endpoint)

    def tenant_form(
        self, path: str, act: FormPage, *, scope: Scope, missing: str, max_bytes: int = SMALL_FORM
    ) -> Route:
        """What a form of one of our own pages is sent to. It must carry the mark of its reader's session."""

        async def endpoint(request: Request) -> Response:
            visit = self._visit(request, path)
            try:
                fields = await read_form(request, self._context.settings.body_seconds, max_bytes)
            except Problem as problem:
                return self._error(visit, problem, missing)
            how = BrowserCheck(page=True, form_mark=fields.get(CSRF_FIELD, ""))

            async def show(visit: PageRequest, caller: Caller) -> Response:
                return await act(visit, caller, fields)

            return await self._answer(visit, missing, scope, show, how)

        return Route(path, endpoint, methods=["POST"])

    async def _answer(
        self, visit: PageRequest, missing: str, scope: Scope, show: TenantPage, how: BrowserCheck
    ) -> Response:
        """A page for whoever may see it; for anybody else the page that says why not."""
        making = ExitStack()
        try:
            caller = await self._context.caller(visit.request, scope, how=how)
            room = self._context.services.response_memory
            visit = msgspec.structs.replace(visit, hold=making.enter_context(room.share(caller.org_id)).take)
            unread = await self._context.services.reads.of(caller).unread(most=MAX_UNREAD_COUNT)
            visit = msgspec.structs.replace(visit, caller=caller, unread=unread)
            if caller.grant is not None and caller.grant.session_id is not None:
                mark = await self._context.services.sessions.form_mark(caller.grant.session_id)
                visit = msgspec.structs.replace(visit, csrf=mark)
            return limit_response_memory(await show(visit, caller), room, caller.org_id)
        except ResponseMemoryFull as error:
            return self._error(visit, response_memory_full(error), missing)
        except Problem as problem:
            if problem.code == "unauthorized":
                return await self.sign_in(visit, onward=visit.way(), headers=problem.headers)
            return self._error(visit, problem, missing)
        except StoreUnavailable as error:
            log_store_failure(error)
            return self._error(visit, _unavailable_problem(), missing)
        finally:
            making.close()

    def public_page(self, path: str, *, missing: str = "missing.page", **by_method: PublicPage) -> Route:
        """A page that holds nothing of an org, and so needs no key: what answers it, by method."""

        async def endpoint(request: Request) -> Response:
            visit = self._visit(request, path)
            show = by_method["GET" if request.method == "HEAD" else request.method]
            try:
                return await show(visit)
            except Problem as problem:
                return self._error(visit, problem, missing)

        return Route(path, endpoint, methods=list(by_method))

    async def sign_in(
        self,
        visit: PageRequest,
        status: int = 401,
        *,
        onward: str,
        org: str = "",
        flaw: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The page that asks for a key, in the place of one that needs it, or at its own address."""
        kept = visit.request.cookies.get(NONCE_COOKIE, "")
        nonce = kept if _NONCE.fullmatch(kept) else new_word(KEY_ALPHABET, 24)
        mark = await self._context.services.sessions.sign_in_mark(nonce)
        values = {"onward": onward, "signin_org": org, "flaw": flaw, "mark": mark}
        response = self.page(visit, "signin.html", status, headers=headers, **values)
        set_cookie(visit.request, self._context.settings, response, NONCE_COOKIE, nonce, _NONCE_SECONDS)
        return response

    def missing(self, request: Request) -> Response:
        """The page about an address that does not exist."""
        visit = self._visit(request, path_within(request.scope))
        return self._error(visit, not_found(), "missing.page")

    def page(
        self,
        visit: PageRequest,
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
            "Referrer-Policy": _REFERRER_POLICY,
            "Cache-Control": cache,
            "Vary": f"{VARY}, Accept-Language",
            "Content-Language": visit.language.code,
            **(headers or {}),
        }
        return HTMLResponse(self.html(visit, template, **values), status, headers=fields)

    def html(self, visit: PageRequest, template: str, **values: Any) -> str:
        """A page's text."""
        shared = {
            "visit": visit,
            "t": visit.language.say,
            "link": visit.link,
            "languages": self._languages,
            "pages": [
                page for page in NAVIGATION if page[0] not in REQUIRED_SCOPE or visit.may(REQUIRED_SCOPE[page[0]])
            ],
            "most_unread": MAX_UNREAD_COUNT,
            "keys": SHORTCUT_KEYS,
            "now": machine_time(self._context.services.authenticator.now()),
            "asset": lambda name: visit.root + self.assets.path(name),
            "org": visit.org,
        }
        return self._templates.get_template(template).render({**shared, **values})

    def _visit(self, request: Request, path: str) -> PageRequest:
        wished = request.query_params.get("lang")
        taste = preferences_of(request)
        code = next((one for one in (wished, taste.language) if one in LANGUAGES), None)
        code = code or preferred(request.headers.get("accept-language", ""))
        root = "../" * (path.count("/") - 1) or "./"
        chosen = wished in LANGUAGES
        return PageRequest(request=request, language=self._languages[code], chosen=chosen, root=root, taste=taste)

    def _error(self, visit: PageRequest, problem: Problem, missing: str) -> Response:
        """The page of an error. One for 404 says nothing about what was asked for."""
        key = missing if problem.code == "not_found" else f"problem.{problem.code}.title"
        return self.page(visit, "error.html", problem.status, headers=problem.headers, problem=problem, title_key=key)


def is_browser(request: Request) -> bool:
    """Whether a person reads the answer: browsers name HTML among what they accept, programs do not."""
    wishes = (wish.partition(";") for header in request.headers.getlist("accept") for wish in header.split(","))
    return any(kind.strip().lower() == "text/html" and quality(weight) > 0 for kind, _, weight in wishes)


def _unavailable_problem() -> Problem:
    return Problem(503, "unavailable", TITLES["unavailable"], headers={"Retry-After": _RETRY_SECONDS})


def code_marks(text: str) -> Markup:
    """Text in which `backticks` mark code, as descriptions of the API have it."""
    parts = text.split("`")
    marked = (Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts))
    return Markup("").join(marked)


NAVIGATION: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("start", ()),
    ("jobs", ("jobs",)),
    ("errors", ("errors",)),
    ("inbox", ("inbox",)),
    ("webhooks", ("webhooks",)),
    ("ops", ("ops",)),
    ("docs", ("docs",)),
    ("problems", ("problems",)),
)
#: What a reader must be allowed to do for a page to be offered, where that is more than reading.
REQUIRED_SCOPE = {"webhooks": "admin"}
#: What follows `g` on the keyboard, by page.
SHORTCUT_KEYS = {
    "start": "s", "jobs": "j", "errors": "e", "inbox": "i", "webhooks": "w", "ops": "o", "docs": "d", "problems": "c",
}  # fmt: skip
