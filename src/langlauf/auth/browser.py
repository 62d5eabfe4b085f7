"""Browser requests with a session cookie: CSRF tokens, same-origin checks and the cookie itself.

A browser sends its cookie with requests of any page. So a cookie alone may only read, and only for our own pages; a
change must come from this origin and carry the CSRF token of the session, which no other site can know.
"""

from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from langlauf.auth.sessions import Sessions
from langlauf.domain.access import Grant
from langlauf.problems import forbidden
from langlauf.settings import Settings

COOKIE = "langlauf_session"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf_token"
READING = ("GET", "HEAD")


class BrowserCheck(NamedTuple):
    """How to check a browser request: a page may be linked from anywhere, a form brings its CSRF token as a field."""

    page: bool = False
    form_mark: str | None = None


BY_SCRIPT = BrowserCheck()


async def session_grant(request: Request, sessions: Sessions, settings: Settings, how: BrowserCheck) -> Grant | None:
    """Return the grant of the session cookie, or None without one. Raise 403 where the request may not use it."""
    text = request.cookies.get(COOKIE)
    grant = None if text is None else await sessions.grant(text)
    if grant is None or grant.session_id is None:
        return None
    if request.method in READING:
        return grant if how.page or request.headers.get("sec-fetch-site") in (None, "same-origin", "none") else None
    shown = how.form_mark if how.form_mark is not None else request.headers.get(CSRF_HEADER, "")
    if not is_same_origin(request, settings) or not await sessions.is_form_mark(grant.session_id, shown):
        raise forbidden(
            "other_site",
            f"A signed-in browser can change something only from these pages, with the header {CSRF_HEADER}.",
        )
    return grant


def is_same_origin(request: Request, settings: Settings) -> bool:
    """Whether a page of this origin sent the request. False where the browser does not say."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = _origin(request)
    if settings.public_url is not None:
        here = urlsplit(settings.public_url)
        return (origin.scheme, origin.netloc) == (here.scheme, here.netloc)
    return bool(origin.netloc) and origin.netloc == request.headers.get("host")


def is_cross_site(request: Request, settings: Settings) -> bool:
    """Whether a page of another site, outside the CORS origins, sent the request.

    Over plain http, browsers send `Sec-Fetch-Site` to loopback only, and older ones never; then `Origin` decides.
    """
    if {"*", request.headers.get("origin")} & set(settings.cors_origins):
        return False
    site = request.headers.get("sec-fetch-site")
    if site is None:
        return "origin" in request.headers and _origin(request).netloc != request.headers.get("host")
    return site in ("cross-site", "same-site")


def _origin(request: Request) -> SplitResult:
    """Return the `Origin` of the request; an empty one where it is missing or malformed."""
    try:
        return urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return urlsplit("")


def set_cookie(request: Request, settings: Settings, response: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie that scripts cannot read and that only this application receives."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=_path(request, settings),
        secure=_is_https(request, settings),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(request: Request, settings: Settings, response: Response, name: str) -> None:
    """Remove a cookie from the browser."""
    set_cookie(request, settings, response, name, "", 0)


def _path(request: Request, settings: Settings) -> str:
    base = urlsplit(settings.public_url).path if settings.public_url else request.scope.get("root_path", "")
    return base.rstrip("/") + "/"


def _is_https(request: Request, settings: Settings) -> bool:
    return (settings.public_url or request.url.scheme).startswith("https")
