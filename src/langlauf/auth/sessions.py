"""Sessions of browsers: a signed session instead of the key, its cookie, CSRF tokens and same-origin checks.

A session is signed and not stored. It names its org, its expiry and the key behind it, and ends with that key, or at
sign-out: a sign-out is stored, so that a copy of the cookie is refused as well. The CSRF tokens of its forms are
derived from its id, so a form of another session or site cannot have them.
"""

import asyncio
import hmac
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.auth.caller import Caller
from langlauf.auth.credentials import SignedClaims, sign_text
from langlauf.auth.keyring import Authenticator
from langlauf.clock import Clock, monotonic, new_word
from langlauf.domain.access import KEY_ALPHABET, Grant
from langlauf.domain.instant import Instant, after
from langlauf.problems import forbidden
from langlauf.settings import Settings
from langlauf.store.admin import AccessStore

#: Lifetime of a session: a working day.
LIFETIME_SECONDS = 8 * 3_600.0
_PREFIX = "lls_"
_PURPOSE = "sessions"
_ID_LENGTH = 24


class SessionClaims(msgspec.Struct, frozen=True, array_like=True):
    """The content of the session cookie."""

    issuer: str
    org_id: str
    session_id: str
    expires_at: Instant


class StartedSession(NamedTuple):
    """A new session: the cookie value, and its lifetime in seconds."""

    text: str
    seconds: int


#: How old the cached sign-outs may be.
FRESH_SECONDS = 1.0


class EndedSessions:
    """Sessions ended by a sign-out, cached and at most a second old."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ends: dict[str, Instant] = {}
        self._number = 0
        self._read_at = float("-inf")
        self._read_lock = asyncio.Lock()

    async def end(self, session_id: str, expires_at: Instant) -> None:
        """End a session for every process. Repeating it changes nothing."""
        await self._store.end_session(session_id, expires_at)
        self._ends[session_id] = expires_at

    async def has(self, session_id: str) -> bool:
        """Whether a session was ended."""
        if monotonic() - self._read_at >= FRESH_SECONDS:
            async with self._read_lock:  # concurrent callers share one read
                if monotonic() - self._read_at >= FRESH_SECONDS:
                    await self._read_ends()
        return session_id in self._ends

    async def _read_ends(self) -> None:
        began, now = monotonic(), self._clock.now()
        for one in await self._store.session_ends(self._number):
            self._ends[one.session_id] = one.expires_at
            self._number = one.number
        self._ends = {session_id: expires_at for session_id, expires_at in self._ends.items() if expires_at > now}
        self._read_at = began


class Sessions:
    """Starts sessions, and returns the grant of one."""

    def __init__(self, access: Authenticator, store: AccessStore, clock: Clock) -> None:
        self._access = access
        self._store = store
        self._ended = EndedSessions(store, clock)
        self._secret: bytes | None = None

    async def _key(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.signing_secret(_PURPOSE)
        return self._secret

    async def begin(self, grant: Grant, org_id: str) -> StartedSession:
        """Start a session for a grant. Its id is new, whatever cookie the browser had before."""
        expires_at = after(self._access.now(), LIFETIME_SECONDS)
        if grant.expires_at is not None:
            expires_at = min(expires_at, grant.expires_at)
        session = SessionClaims(grant.issuer, org_id, new_word(KEY_ALPHABET, _ID_LENGTH), expires_at)
        text = SignedClaims(SessionClaims, _PREFIX, await self._key()).write(session)
        return StartedSession(text, (expires_at - self._access.now()) // 1_000_000)

    async def grant(self, text: str) -> Grant | None:
        """Return the grant of a session; None where it is not ours, has expired, or its key has."""
        session = await self._read(text)
        if session is None or await self._ended.has(session.session_id):
            return None
        behind = self._access.by_issuer(session.issuer)
        if behind is None or behind.org_id not in (None, session.org_id):
            return None
        self._access.used(session.issuer)
        return Grant(
            issuer=session.issuer,
            org_id=session.org_id,
            scopes=behind.scopes,
            expires_at=session.expires_at,
            session_id=session.session_id,
        )

    async def _read(self, text: str) -> SessionClaims | None:
        """Return the session in a signed text, unless it has expired."""
        session = SignedClaims(SessionClaims, _PREFIX, await self._key()).read(text)
        return None if session is None or self._access.now() >= session.expires_at else session

    async def end(self, text: str) -> None:
        """End a session, for every copy of its cookie and in every process."""
        session = await self._read(text)
        if session is not None:
            await self._ended.end(session.session_id, session.expires_at)

    async def allows(self, caller: Caller) -> bool:
        """Whether a caller of a stream or a long poll may still be served, by their key and by their session."""
        session_id = None if caller.grant is None else caller.grant.session_id
        ended = session_id is not None and await self._ended.has(session_id)
        return not ended and await self._access.allows(caller)

    async def form_mark(self, session_id: str) -> str:
        """Return the CSRF token of a session, for its forms and for requests of its scripts."""
        return sign_text(await self._key(), "form", session_id)

    async def sign_in_mark(self, nonce: str) -> str:
        """Return the CSRF token of the sign-in form, for the browser with this nonce."""
        return sign_text(await self._key(), "sign in", nonce)

    async def is_form_mark(self, session_id: str, shown: str) -> bool:
        """Whether a CSRF token belongs to this session."""
        return hmac.compare_digest((await self.form_mark(session_id)).encode(), shown.encode())

    async def is_sign_in_mark(self, nonce: str, shown: str) -> bool:
        """Whether a CSRF token of the sign-in form belongs to this browser."""
        return hmac.compare_digest((await self.sign_in_mark(nonce)).encode(), shown.encode())


# -- cookies and CSRF --------------------------------------------------------------------------------------------------
# A browser sends its cookie with requests of any page. So a cookie alone may only read, and only for our own pages; a
# change must come from this origin and carry the CSRF token of the session, which no other site can know.

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
