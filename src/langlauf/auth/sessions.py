"""Sessions: somebody showed a key to a page once, and their browser remembers that they did, not the key.

A session is signed and not stored. It names its org, its end and the key behind it, and ends with that key, or when its
owner signs out: that end is stored, so that a copy of the cookie opens nothing either. Its own id is what the marks in
its forms are made from: a form of another session, or of another site, does not have them."""

import asyncio
import hmac
from typing import NamedTuple

import msgspec

from langlauf.auth.caller import Caller
from langlauf.auth.keyring import Authenticator
from langlauf.auth.tokens import SignedClaims, sign_text
from langlauf.clock import Clock, monotonic, new_word
from langlauf.domain.access import KEY_ALPHABET, Grant
from langlauf.domain.instant import Instant, after
from langlauf.store.admin import AccessStore

#: How long somebody stays signed in: a working day.
LIFETIME_SECONDS = 8 * 3_600.0
_PREFIX = "lls_"
_PURPOSE = "sessions"
_ID_LENGTH = 24


class SessionClaims(msgspec.Struct, frozen=True, array_like=True):
    """What the browser keeps."""

    issuer: str
    org_id: str
    session_id: str
    expires_at: Instant


class StartedSession(NamedTuple):
    """A new session, as the browser keeps it, and for how many seconds."""

    text: str
    seconds: int


#: How old what is known may be.
FRESH_SECONDS = 1.0


class EndedSessions:
    """The sessions that were ended, as they were within the last second."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ends: dict[str, Instant] = {}
        self._number = 0
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def end(self, session_id: str, expires_at: Instant) -> None:
        """Ends a session for every process. Repeating it changes nothing."""
        await self._store.end_session(session_id, expires_at)
        self._ends[session_id] = expires_at

    async def has(self, session_id: str) -> bool:
        """Whether a session was ended."""
        if monotonic() - self._looked_at >= FRESH_SECONDS:
            async with self._looking:  # concurrent callers share one look
                if monotonic() - self._looked_at >= FRESH_SECONDS:
                    await self._look()
        return session_id in self._ends

    async def _look(self) -> None:
        began, now = monotonic(), self._clock.now()
        for one in await self._store.session_ends(self._number):
            self._ends[one.session_id] = one.expires_at
            self._number = one.number
        self._ends = {session_id: expires_at for session_id, expires_at in self._ends.items() if expires_at > now}
        self._looked_at = began


class Sessions:
    """Begins sessions, and tells what one stands for."""

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
        """A session of whoever showed what the grant is for. Its id is new, whatever the browser had before."""
        expires_at = after(self._access.now(), LIFETIME_SECONDS)
        if grant.expires_at is not None:
            expires_at = min(expires_at, grant.expires_at)
        session = SessionClaims(grant.issuer, org_id, new_word(KEY_ALPHABET, _ID_LENGTH), expires_at)
        text = SignedClaims(SessionClaims, _PREFIX, await self._key()).write(session)
        return StartedSession(text, (expires_at - self._access.now()) // 1_000_000)

    async def grant(self, text: str) -> Grant | None:
        """What a session stands for; None where it is not ours, is over, or the key behind it is."""
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
        """The session in a text that was signed here, unless it is over by itself."""
        session = SignedClaims(SessionClaims, _PREFIX, await self._key()).read(text)
        return None if session is None or self._access.now() >= session.expires_at else session

    async def end(self, text: str) -> None:
        """Ends a session, for every copy of its cookie and in every process."""
        session = await self._read(text)
        if session is not None:
            await self._ended.end(session.session_id, session.expires_at)

    async def allows(self, caller: Caller) -> bool:
        """Whether a caller who is served for a while may still be: by what stands behind them, and by their session."""
        session_id = None if caller.grant is None else caller.grant.session_id
        ended = session_id is not None and await self._ended.has(session_id)
        return not ended and await self._access.allows(caller)

    async def form_mark(self, session_id: str) -> str:
        """What every form of a session carries, and every request of its scripts that changes something."""
        return sign_text(await self._key(), "form", session_id)

    async def sign_in_mark(self, nonce: str) -> str:
        """What the form for signing in carries, for the browser that was given the nonce."""
        return sign_text(await self._key(), "sign in", nonce)

    async def is_form_mark(self, session_id: str, shown: str) -> bool:
        """Whether a form is of this session."""
        return hmac.compare_digest((await self.form_mark(session_id)).encode(), shown.encode())

    async def is_sign_in_mark(self, nonce: str, shown: str) -> bool:
        """Whether a form for signing in was given to this browser."""
        return hmac.compare_digest((await self.sign_in_mark(nonce)).encode(), shown.encode())
