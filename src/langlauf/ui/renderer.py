"""Renders every page: language, links, headers, and HTML where something goes wrong."""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from langlauf.api.context import ApiContext
from langlauf.api.requests import SMALL_FORM, read_form
from langlauf.auth.caller import Caller
from langlauf.auth.sessions import CSRF_FIELD, BrowserCheck, set_cookie
from langlauf.clock import new_word
from langlauf.domain.access import KEY_ALPHABET, Scope
from langlauf.domain.errors import ResponseMemoryFull, StoreUnavailable
from langlauf.domain.job import JobRecord
from langlauf.problems import TITLES, VARY, Problem, not_found
from langlauf.server.asgi import limit_response_memory, path_within, response_memory_full
from langlauf.telemetry.log import log_store_failure
from langlauf.ui.formats import local_time, machine_time, time_tag, zone_name
from langlauf.ui.language import (
    LANGUAGES,
    AnalysisTexts,
    error_text,
    job_error,
    load_language,
    phrase,
    preferred,
    quality,
    region_for,
    retry_advice,
)
from langlauf.ui.page_request import PageRequest, preferences_of
from langlauf.ui.responses import Assets

#: No code but our own files. Images may be data: URLs, as the page icon is one.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: The CSRF check needs the referrer on our own origin; other sites get none.
_REFERRER_POLICY = "same-origin"
PRIVATE = "private, no-store"
PUBLIC = "public, max-age=300"
_RETRY_SECONDS = "5"
#: Binds the sign-in form to the browser that it was sent to.
NONCE_COOKIE = "langlauf_signin"
_NONCE = re.compile(r"[0-9A-Za-z]{24}", re.ASCII)
_NONCE_SECONDS = 3_600
#: Unread messages are counted up to this; beyond it the page shows a plus.
MAX_UNREAD_COUNT = 99
#: The links in the header of every page, in their order: name, and path from the root.
NAVIGATION: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("start", ()),
    ("jobs", ("jobs",)),
    ("errors", ("errors",)),
    ("inbox", ("inbox",)),
    ("schedules", ("schedules",)),
    ("webhooks", ("webhooks",)),
    ("ops", ("ops",)),
    ("docs", ("docs",)),
    ("problems", ("problems",)),
)
#: Pages that everybody needs; the head shows the others behind `More`.
PEOPLE_PAGES = ("start", "jobs", "inbox")
#: The scope a link is shown for, where it is not `read`.
REQUIRED_SCOPE = {"webhooks": "admin"}
#: The key after `g` that opens a page.
SHORTCUT_KEYS = {
    "start": "s", "jobs": "j", "errors": "e", "inbox": "i", "schedules": "p",
    "webhooks": "w", "ops": "o", "docs": "d", "problems": "c",
}  # fmt: skip

TenantPage = Callable[[PageRequest, Caller], Awaitable[Response]]
PublicPage = Callable[[PageRequest], Awaitable[Response]]
#: Handles a submitted form, given its fields by name.
FormPage = Callable[[PageRequest, Caller, Mapping[str, str]], Awaitable[Response]]


class PageRenderer:
    """Makes routes of page functions; a `Problem` that one raises becomes an HTML page."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._languages = {code: load_language(code) for code in LANGUAGES}
        self.assets = Assets()
        self.analyses = AnalysisTexts(context.services.registry)
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
        """Return the route of a page with an org's data.

        `missing` is the text key of its 404 page, the same for unknown ids and those of other orgs.
        """

        async def endpoint(request: Request) -> Response:
            page_request = self._page_request(request, path)
            return await self._respond(page_request, missing, Scope.READ, show, BrowserCheck(page=True))

        return Route(path, endpoint)

    def tenant_form(
        self, path: str, act: FormPage, *, scope: Scope, missing: str, max_bytes: int = SMALL_FORM
    ) -> Route:
        """Return the route that a form of our own pages posts to; in a session it must carry the CSRF token."""

        async def endpoint(request: Request) -> Response:
            page_request = self._page_request(request, path)
            try:
                fields = await read_form(request, self._context.settings.body_seconds, max_bytes)
            except Problem as problem:
                return self._error(page_request, problem, missing)
            browsing = BrowserCheck(page=True, form_mark=fields.get(CSRF_FIELD, ""))

            async def show(page_request: PageRequest, caller: Caller) -> Response:
                return await act(page_request, caller, fields)

            return await self._respond(page_request, missing, scope, show, browsing)

        return Route(path, endpoint, methods=["POST"])

    async def _respond(
        self, request: PageRequest, missing: str, scope: Scope, show: TenantPage, browsing: BrowserCheck
    ) -> Response:
        """Return the page, or the sign-in page or an error page instead."""
        services = self._context.services
        memory = ExitStack()
        try:
            caller = await self._context.caller(request.http, scope, how=browsing)
            share = memory.enter_context(services.response_memory.share(caller.org_id))
            request = msgspec.structs.replace(
                request,
                reserve_memory=share.take,
                caller=caller,
                unread=await services.reads.of(caller).unread(most=MAX_UNREAD_COUNT),
            )
            if caller.grant is not None and caller.grant.session_id is not None:
                token = await services.sessions.form_mark(caller.grant.session_id)
                request = msgspec.structs.replace(request, csrf=token)
            return limit_response_memory(await show(request, caller), services.response_memory, caller.org_id)
        except ResponseMemoryFull as error:
            return self._error(request, response_memory_full(error), missing)
        except Problem as problem:
            if problem.code == "unauthorized":
                return await self.sign_in(request, return_path=request.return_path(), headers=problem.headers)
            return self._error(request, problem, missing)
        except StoreUnavailable as error:
            log_store_failure(error)
            return self._error(request, _unavailable_problem(), missing)
        finally:
            memory.close()

    async def mark_read(self, request: PageRequest, caller: Caller, job: JobRecord) -> PageRequest:
        """Mark the messages about an ended job as read, where a person opens its page, and count anew.

        A script that fetches the page, or a browser that loads it in advance, has not shown it to a person.
        """
        headers = request.http.headers
        if not job.terminal or headers.get("sec-fetch-dest") != "document" or "sec-purpose" in headers:
            return request
        services = self._context.services
        with suppress(StoreUnavailable):  # a page can be read where nothing can be written
            if await services.inbox.read_of_job(caller, job.job_id):
                left = await services.reads.of(caller).unread(most=MAX_UNREAD_COUNT)
                return msgspec.structs.replace(request, unread=left)
        return request

    def public_page(self, path: str, *, missing: str = "missing.page", **by_method: PublicPage) -> Route:
        """Return the route of a page without an org's data, which needs no key; its handlers by method."""

        async def endpoint(request: Request) -> Response:
            page_request = self._page_request(request, path)
            show = by_method["GET" if request.method == "HEAD" else request.method]
            try:
                return await show(page_request)
            except Problem as problem:
                return self._error(page_request, problem, missing)

        return Route(path, endpoint, methods=list(by_method))

    async def sign_in(
        self,
        request: PageRequest,
        status: int = 401,
        *,
        return_path: str,
        org: str = "",
        error: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the sign-in page, at its own address or in place of a page that needs a key."""
        kept = request.http.cookies.get(NONCE_COOKIE, "")
        nonce = kept if _NONCE.fullmatch(kept) else new_word(KEY_ALPHABET, 24)
        token = await self._context.services.sessions.sign_in_mark(nonce)
        values = {"return_path": return_path, "signin_org": org, "error": error, "token": token}
        response = self.page(request, "signin.html", status, headers=headers, **values)
        set_cookie(request.http, self._context.settings, response, NONCE_COOKIE, nonce, _NONCE_SECONDS)
        return response

    def missing(self, request: Request) -> Response:
        """Return the 404 page of an address without a route."""
        page_request = self._page_request(request, path_within(request.scope))
        return self._error(page_request, not_found(), "missing.page")

    def page(
        self,
        request: PageRequest,
        template: str,
        status: int = 200,
        *,
        cache: str = PRIVATE,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> Response:
        """Render a template with the headers that every page has."""
        fields = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Referrer-Policy": _REFERRER_POLICY,
            "Cache-Control": cache,
            "Vary": f"{VARY}, Accept-Language",
            "Content-Language": request.language.code,
            **(headers or {}),
        }
        return HTMLResponse(self.html(request, template, **values), status, headers=fields)

    def html(self, request: PageRequest, template: str, **values: Any) -> str:
        """Render a template to text."""
        now = self._context.services.authenticator.now()
        shared = {
            "request": request,
            "t": request.language.text,
            "link": request.link,
            "languages": self._languages,
            "pages": [
                page for page in NAVIGATION if page[0] not in REQUIRED_SCOPE or request.allows(REQUIRED_SCOPE[page[0]])
            ],
            "people_pages": PEOPLE_PAGES,
            "max_unread": MAX_UNREAD_COUNT,
            "keys": SHORTCUT_KEYS,
            "now": machine_time(now),
            "zone": zone_name(local_time(now)),
            "asset": lambda name: request.root + self.assets.path(name),
            "org": request.org,
            "title_of": lambda name: self.analyses.title(name, request.language),
            "retry_advice": retry_advice,
            "error_of": lambda job: job_error(job, self.analyses.words(job.analysis, request.language)),
            "error_in": lambda name, message, sentence: error_text(
                message, sentence, self.analyses.words(name, request.language)
            ),
            "phrase": lambda text: phrase(text, request.language),
            "in_words_of": lambda name, text: self.analyses.words(name, request.language).text(text),
        }
        return self._templates.get_template(template).render({**shared, **values})

    def _page_request(self, request: Request, path: str) -> PageRequest:
        in_url = request.query_params.get("lang")
        preferences = preferences_of(request)
        accepted = request.headers.get("accept-language", "")
        chosen = next((one for one in (in_url, preferences.language) if one in LANGUAGES), None)
        code = chosen or preferred(accepted)
        language = msgspec.structs.replace(self._languages[code], region=region_for(code, accepted))
        return PageRequest(
            http=request,
            language=language,
            language_in_url=in_url in LANGUAGES,
            root="../" * (path.count("/") - 1) or "./",
            preferences=preferences,
        )

    def _error(self, request: PageRequest, problem: Problem, missing: str) -> Response:
        """Return an error page; a 404 does not repeat what was requested."""
        key = missing if problem.code == "not_found" else f"problem.{problem.code}.title"
        return self.page(request, "error.html", problem.status, headers=problem.headers, problem=problem, title_key=key)


def is_browser(request: Request) -> bool:
    """Whether the client is a browser: browsers accept text/html, programs do not."""
    accepted = (part.partition(";") for header in request.headers.getlist("accept") for part in header.split(","))
    return any(kind.strip().lower() == "text/html" and quality(weight) > 0 for kind, _, weight in accepted)


def _unavailable_problem() -> Problem:
    return Problem(503, "unavailable", TITLES["unavailable"], headers={"Retry-After": _RETRY_SECONDS})


def code_marks(text: str) -> Markup:
    """Return text in which `backticks`, as API descriptions have them, became code elements."""
    parts = text.split("`")
    marked = (Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts))
    return Markup("").join(marked)
