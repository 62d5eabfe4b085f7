"""`/login` and `/logout`: a person enters a key, and the browser gets a session."""

from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.requests import read_form
from langlauf.auth.caller import DEFAULT_ORG, is_valid_name
from langlauf.auth.sessions import COOKIE, CSRF_FIELD, BrowserCheck, delete_cookie, is_same_origin, set_cookie
from langlauf.domain.access import Grant, Scope
from langlauf.problems import unauthorized
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import NONCE_COOKIE, PageRenderer
from langlauf.ui.responses import local_path, see_other


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
