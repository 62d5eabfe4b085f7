"""Pages without an org's data, which need no key: sign-in, error codes, states, settings, unsubscribe."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.openapi.responses import statuses_of
from langlauf.api.requests import SMALL_FORM, read_body, read_form
from langlauf.auth.caller import DEFAULT_ORG, is_valid_name
from langlauf.auth.sessions import (
    COOKIE,
    CSRF_FIELD,
    BrowserCheck,
    delete_cookie,
    is_cross_site,
    is_same_origin,
    set_cookie,
)
from langlauf.domain.access import Grant, Scope
from langlauf.domain.job import Phase
from langlauf.domain.mail import masked_mail_address
from langlauf.domain.state import TERMINAL, Status
from langlauf.problems import JOB_TITLES, TITLES, forbidden, not_found, unauthorized
from langlauf.service.notifications import MailReceiver
from langlauf.ui.formats import display_state
from langlauf.ui.language import LANGUAGES
from langlauf.ui.page_request import LANGUAGE_COOKIE, SHORTCUTS_COOKIE, SHORTCUTS_OFF, THEME_COOKIE, THEMES, PageRequest
from langlauf.ui.renderer import NONCE_COOKIE, PRIVATE, PUBLIC, PageRenderer
from langlauf.ui.responses import local_path, see_other

#: Codes of failed jobs; some are also codes of responses.
JOB_PROBLEM_CODES = (*JOB_TITLES, "timeout", "internal")
PROBLEM_CODES = tuple(dict.fromkeys((*TITLES, *JOB_TITLES)))


def has_problem_page(code: str | None) -> bool:
    """Whether there is a page for the code; an analysis may have codes of its own."""
    return code in PROBLEM_CODES


class ProblemPages:
    """`/problems` and `/problems/{code}`."""

    def __init__(self, renderer: PageRenderer) -> None:
        self._renderer = renderer

    async def list(self, request: PageRequest) -> Response:
        """List all codes."""
        statuses = {code: sorted(statuses_of(code)) for code in PROBLEM_CODES}
        return self._renderer.page(request, "problems.html", cache=PUBLIC, codes=PROBLEM_CODES, statuses=statuses)

    async def show(self, request: PageRequest) -> Response:
        """Explain one code."""
        code = request.path_params["code"]
        if code not in PROBLEM_CODES:
            raise not_found()
        return self._renderer.page(
            request,
            "problem.html",
            cache=PUBLIC,
            code=code,
            statuses=sorted(statuses_of(code)),
            of_request=code in TITLES,
            of_job=code in JOB_PROBLEM_CODES,
        )


class StateDoc(msgspec.Struct, frozen=True):
    """A state as pages show it, with its status and phases in the API."""

    display_state: str
    #: the status that selects the colour
    status: Status
    statuses: list[Status]
    phases: list[Phase]


#: In the order of a job's life.
STATE_ORDER = (
    "scheduled", "queued", "paused", "running", "partial", "silent", "backoff", "waiting", "canceling",
    "completed", "failed", "canceled",
)  # fmt: skip


def state_docs() -> list[StateDoc]:
    """Return every display state."""
    found: dict[str, StateDoc] = {}
    for status in Status:
        for phase in _phases_of(status):
            shown = found.setdefault(
                display_state(status, phase), StateDoc(display_state(status, phase), status, [], [])
            )
            if status not in shown.statuses:
                shown.statuses.append(status)
            if phase not in shown.phases:
                shown.phases.append(phase)
    return sorted(found.values(), key=lambda shown: STATE_ORDER.index(shown.display_state))


def _phases_of(status: Status) -> list[Phase]:
    if status in TERMINAL:
        return [Phase.DONE]
    if status is Status.QUEUED:
        return [Phase.SCHEDULED, Phase.WAITING, Phase.PAUSED]
    return [one for one in Phase if one not in (Phase.SCHEDULED, Phase.DONE)]


class StatesPage:
    """`/help/states`."""

    def __init__(self, renderer: PageRenderer) -> None:
        self._renderer = renderer

    async def show(self, request: PageRequest) -> Response:
        """Show the page, the same for every caller."""
        return self._renderer.page(request, "states.html", cache=PUBLIC, states=state_docs())


#: One year; browsers cap it anyway.
_COOKIE_SECONDS = 365 * 86_400
#: Form field, cookie and known values of each preference.
_PREFERENCE_COOKIES = (
    ("theme", THEME_COOKIE, THEMES),
    ("language", LANGUAGE_COOKIE, LANGUAGES),
    ("shortcuts", SHORTCUTS_COOKIE, (SHORTCUTS_OFF,)),
)


class SettingsPage:
    """`/settings`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest) -> Response:
        """Show the form with the current preferences."""
        saved = request.query_params.get("saved") == "yes"
        return self._renderer.page(request, "settings.html", cache=PRIVATE, themes=("", *THEMES), saved=saved)

    async def save(self, request: PageRequest) -> Response:
        """Store the submitted preferences in cookies; fields that are missing stay unchanged."""
        fields = await read_form(request.http, self._context.settings.body_seconds)
        if is_cross_site(request.http, self._context.settings):
            raise forbidden(
                "other_site", "The request comes from a page of another site, which may not change anything here."
            )
        onward = f"./{local_path(fields['back'])}" if "back" in fields else "./settings?saved=yes"
        response = see_other(onward)
        for field, cookie, known in _PREFERENCE_COOKIES:
            if fields.get(field) in known:
                set_cookie(request.http, self._context.settings, response, cookie, fields[field], _COOKIE_SECONDS)
            elif field in fields:
                delete_cookie(request.http, self._context.settings, response, cookie)
        return response


class UnsubscribePage:
    """`/unsubscribe/{token}`, where the token authorises.

    Opening the page changes nothing, because mail programs follow links. Its form does, or the one-click request of RFC
    8058, which is answered without a redirect.
    """

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._receivers = context.services.mail_receivers

    async def show(self, request: PageRequest) -> Response:
        """Ask for confirmation."""
        return self._page(request, await self._receiver(request), done=False)

    async def unsubscribe(self, request: PageRequest) -> Response:
        """Unsubscribe the address; repeating it changes nothing. The body is read and ignored."""
        receiver = await self._receiver(request)
        await read_body(request.http, SMALL_FORM, self._context.settings.body_seconds)
        await self._receivers.unsubscribe(receiver)
        return self._page(request, receiver, done=True)

    async def _receiver(self, request: PageRequest) -> MailReceiver:
        receiver = await self._receivers.receiver(request.path_params["token"])
        if receiver is None:
            raise not_found()
        return receiver

    def _page(self, request: PageRequest, receiver: MailReceiver, *, done: bool) -> Response:
        return self._renderer.page(
            request,
            "unsubscribe.html",
            done=done,
            token=request.path_params["token"],
            from_org=receiver.org_id,
            address=masked_mail_address(receiver.address),
        )


# -- sign-in -----------------------------------------------------------------------------------------------------------


class SignInPages:
    """`/login` and `/logout`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._services = context.services
        self._renderer = renderer

    async def show(self, request: PageRequest) -> Response:
        """Show the form, or redirect where no sign-in is needed."""
        return_path = local_path(request.query_params.get("next", ""))
        await self._services.authenticator.refresh()
        if self._services.authenticator.open or await self._signed_in(request.http):
            return _redirect_to(return_path)
        return await self._renderer.sign_in(request, 200, return_path=return_path)

    async def _signed_in(self, request: Request) -> bool:
        text = request.cookies.get(COOKIE)
        return text is not None and await self._services.sessions.grant(text) is not None

    async def sign_in(self, request: PageRequest) -> Response:
        """Start a session for a valid key in a form that this browser was sent."""
        fields = await read_form(request.http, self._context.settings.body_seconds)
        return_path = local_path(fields.get("next", ""))
        await self._services.authenticator.refresh()
        if self._services.authenticator.open:
            return _redirect_to(return_path)
        nonce = request.http.cookies.get(NONCE_COOKIE, "")
        is_ours = await self._services.sessions.is_sign_in_mark(nonce, fields.get(CSRF_FIELD, ""))
        text, org = request.language.text, fields.get("org", "").strip()
        if not (nonce and is_ours and is_same_origin(request.http, self._context.settings)):
            return await self._renderer.sign_in(
                request, 403, return_path=return_path, org=org, error=text("signin.again")
            )
        grant = await self._services.authenticator.by_secret(fields.get("key", "").strip().encode())
        if grant is None:
            self._context.limit_wrong_keys(request.http)
            return await self._renderer.sign_in(
                request, return_path=return_path, org=org, error=text("signin.wrong"), headers=unauthorized().headers
            )
        if Scope.READ not in grant.scopes:
            return await self._renderer.sign_in(
                request, 403, return_path=return_path, org=org, error=text("signin.no_read")
            )
        if not _org_allowed(grant, org):
            return await self._renderer.sign_in(
                request, 403, return_path=return_path, org=org, error=text("signin.other_org")
            )
        begun = await self._services.sessions.begin(grant, grant.org_id or org or DEFAULT_ORG)
        response = _redirect_to(return_path)
        set_cookie(request.http, self._context.settings, response, COOKIE, begun.text, begun.seconds)
        delete_cookie(request.http, self._context.settings, response, NONCE_COOKIE)
        return response

    async def sign_out(self, request: PageRequest) -> Response:
        """End the session, for every copy of its cookie, and clear the browser's cache."""
        fields = await read_form(request.http, self._context.settings.body_seconds)
        if await self._signed_in(request.http):
            how = BrowserCheck(page=True, form_mark=fields.get(CSRF_FIELD, ""))
            await self._context.caller(request.http, Scope.READ, how=how)
            await self._services.sessions.end(request.http.cookies[COOKIE])
        response = see_other("./login")
        response.headers["Clear-Site-Data"] = '"cache"'  # also pages kept for the back button
        delete_cookie(request.http, self._context.settings, response, COOKIE)
        return response


def _org_allowed(grant: Grant, org: str) -> bool:
    """Whether the org in the form is valid and allowed for the key."""
    return not org or (is_valid_name(org) and grant.org_id in (None, org))


def _redirect_to(return_path: str) -> Response:
    """Redirect to one of our pages: the address starts with a dot, so it cannot leave this server."""
    return see_other(f"./{return_path}")
