"""Sessions of browsers: the cookie, and what a request that comes with one must also have.

A browser sends its cookie whoever made it ask. So a cookie alone only reads, and only for our own pages; what changes
something must come from this origin and carry the mark of the session, which no other site can know.
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
    """How a request of a browser is to be taken: a page may be reached from anywhere, a form brings its own mark."""

    page: bool = False
    form_mark: str | None = None


BY_SCRIPT = BrowserCheck()


async def session_grant(request: Request, sessions: Sessions, settings: Settings, how: BrowserCheck) -> Grant | None:
    """What the session in the cookie stands for; None without one. Raises 403 where a request may not use it."""
    text = request.cookies.get(COOKIE)
    grant = None if text is None else await sessions.grant(text)
    if grant is None or grant.session_id is None:
        return None
    if request.method in READING:
        return grant if how.page or request.headers.get("sec-fetch-site") in (None, "same-origin", "none") else None
    shown = how.form_mark if how.form_mark is not None else request.headers.get(CSRF_HEADER, "")
    if not is_same_origin(request, settings) or not await sessions.is_form_mark(grant.session_id, shown):
        raise forbidden(f"A signed-in browser changes something from these pages alone, with {CSRF_HEADER}.")
    return grant


def is_same_origin(request: Request, settings: Settings) -> bool:
    """Whether a page of this very origin made the browser ask. A request that does not tell is none."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = _origin(request)
    if settings.public_url is not None:
        here = urlsplit(settings.public_url)
        return (origin.scheme, origin.netloc) == (here.scheme, here.netloc)
    return bool(origin.netloc) and origin.netloc == request.headers.get("host")


def is_cross_site(request: Request, settings: Settings) -> bool:
    """Whether a browser says that a page of another site made it ask, one that is not allowed to.

    Without https browsers name the site to this machine alone, and older ones never; their `Origin` tells as much.
    """
    if {"*", request.headers.get("origin")} & set(settings.cors_origins):
        return False
    site = request.headers.get("sec-fetch-site")
    if site is None:
        return "origin" in request.headers and _origin(request).netloc != request.headers.get("host")
    return site in ("cross-site", "same-site")


def _origin(request: Request) -> SplitResult:
    """The origin that a browser names; an empty one where it names none that can be read."""
    try:
        return urlsplit(request.headers.get("origin", ""))
    except ValueError:
        return urlsplit("")


def set_cookie(request: Request, settings: Settings, response: Response, name: str, value: str, seconds: int) -> None:
    """Gives the browser a cookie that scripts cannot read and that only this application gets."""
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
    """Takes a cookie back."""
    set_cookie(request, settings, response, name, "", 0)


def _path(request: Request, settings: Settings) -> str:
    base = urlsplit(settings.public_url).path if settings.public_url else request.scope.get("root_path", "")
    return base.rstrip("/") + "/"


def _is_https(request: Request, settings: Settings) -> bool:
    return (settings.public_url or request.url.scheme).startswith("https")
