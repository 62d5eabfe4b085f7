"""Credentials of a request: keys and tokens for one job, in headers and never in a URL."""

import base64
import binascii
import hashlib
import hmac
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_plus

import msgspec
from starlette.requests import Request

from langlauf.auth.caller import Caller
from langlauf.auth.keyring import Authenticator
from langlauf.domain.access import OPEN_ISSUER, Grant, Scope
from langlauf.domain.instant import Instant, after
from langlauf.problems import bad_request
from langlauf.store.admin import AccessStore

# -- tokens for one job ------------------------------------------------------------------------------------------------
# A token is signed and not stored: it names its org, its job, its expiry and the key it was made with. That key must
# still be valid when the token is used, so revoking the key ends its tokens, and there is nothing to clean up.

T = TypeVar("T", bound=msgspec.Struct)
#: Longer texts cannot be ours and are not decoded.
LONGEST = 1_024


class SignedClaims(Generic[T]):
    """Signs and verifies claims of one type. The prefix is signed too, so types cannot be confused."""

    def __init__(self, kind: type[T], prefix: str, secret: bytes) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._prefix = prefix
        self._secret = secret

    def write(self, statement: T) -> str:
        """Return the claims as signed text."""
        said = self._prefix + _text(msgspec.json.encode(statement))
        return f"{said}.{self._sign(said)}"

    def read(self, text: str) -> T | None:
        """Return the claims of a text that was signed here; None for any other text."""
        said, _, signature = text[:LONGEST].rpartition(".")
        expected = self._sign(said)
        # Always one signature and one comparison, whatever was sent: constant time.
        good = hmac.compare_digest(expected.encode(), signature.encode())
        if not good or len(text) > LONGEST or not said.startswith(self._prefix):
            return None
        try:
            return self._decoder.decode(base64.urlsafe_b64decode(_padded(said[len(self._prefix) :])))
        except (msgspec.MsgspecError, binascii.Error, ValueError):
            return None

    def _sign(self, said: str) -> str:
        return _text(hmac.digest(self._secret, said.encode(), hashlib.sha256))


def sign_text(secret: bytes, purpose: str, about: str) -> str:
    """Return a text that only this deployment can derive, such as the CSRF token of a session."""
    return _text(hmac.digest(secret, f"{purpose} {about}".encode(), hashlib.sha256))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


PREFIX = "llt_"
#: Default and longest lifetime of a token.
USUAL_SECONDS = 3_600.0
LONGEST_SECONDS = 86_400.0
_PURPOSE = "job tokens"


class JobTokenClaims(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token."""

    issuer: str
    org_id: str
    job_id: str
    expires_at: Instant
    #: whether it may also cancel the job
    cancel: bool = False


class IssuedToken(NamedTuple):
    """A new token, and when it expires."""

    text: str
    expires_at: Instant


class JobTokens:
    """Issues tokens, and returns the grant of one."""

    def __init__(self, access: Authenticator, store: AccessStore) -> None:
        self._access = access
        self._store = store
        self._statements: SignedClaims[JobTokenClaims] | None = None

    async def _signed(self) -> SignedClaims[JobTokenClaims]:
        if self._statements is None:
            self._statements = SignedClaims(JobTokenClaims, PREFIX, await self._store.signing_secret(_PURPOSE))
        return self._statements

    async def make(self, caller: Caller, job_id: str, seconds: float, *, cancel: bool = False) -> IssuedToken:
        """Issue a token for a job that the caller can see. It expires with the caller's credential at the latest.

        With `cancel` it may also cancel that job, as long as its key may.
        """
        grant = caller.grant
        if grant is None:
            raise ValueError("a token needs a caller with a key")
        expires_at = after(self._access.now(), seconds)
        if grant.expires_at is not None:
            expires_at = min(expires_at, grant.expires_at)
        token = JobTokenClaims(grant.issuer, caller.org_id, job_id, expires_at, cancel)
        return IssuedToken((await self._signed()).write(token), expires_at)

    async def grant(self, text: str) -> Grant | None:
        """Return the grant of a token; None where it is not ours, has expired, or its key has."""
        token = (await self._signed()).read(text)
        if token is None or self._access.now() >= token.expires_at:
            return None
        behind = self._access.by_issuer(token.issuer)
        if behind is None or behind.org_id not in (None, token.org_id):
            return None
        self._access.used(token.issuer)
        return Grant(
            issuer=token.issuer,
            org_id=token.org_id,
            scopes=behind.scopes & ({Scope.READ, Scope.CANCEL} if token.cancel else {Scope.READ}),
            expires_at=token.expires_at,
            job_id=token.job_id,
        )


# -- credentials of a request ------------------------------------------------------------------------------------------
# A token for one job may also come in the query string, because a browser's `EventSource` cannot send headers. It is
# removed from the request before any other code sees it.

QUERY_TOKEN = "access_token"  # noqa: S105 - a parameter name
_TOKEN = PREFIX.encode()


async def grant_of(
    access: Authenticator,
    tokens: JobTokens,
    shown: bytes | None,
    in_address: str | None,
    *,
    store_may_be_away: bool = False,
) -> Grant | None:
    """Return the grant of the credential in a header or in the query string; None where it is not valid."""
    if not access.fresh:
        await (access.refresh_if_possible() if store_may_be_away else access.refresh())
    if in_address is not None:
        if shown is not None and shown != in_address.encode():
            raise bad_request("access_token and a header have different credentials; send one of them.", QUERY_TOKEN)
        return await tokens.grant(in_address)
    if shown is not None and shown.startswith(_TOKEN):
        return await tokens.grant(shown.decode("ascii", "replace"))
    return access.by_issuer(OPEN_ISSUER) or await access.by_secret(shown or b"")


def pop_query_token(request: Request) -> str | None:
    """Remove the token from the query string and return it, so that no later code can log, link or refuse it."""
    if not request.scope["query_string"]:
        return None
    parts = request.scope["query_string"].decode("latin-1").split("&")
    pairs = [(unquote_plus(part.partition("=")[0]), part) for part in parts]
    found = [unquote_plus(part.partition("=")[2]) for name, part in pairs if name == QUERY_TOKEN]
    if not found:
        return None
    request.scope["query_string"] = "&".join(part for name, part in pairs if name != QUERY_TOKEN).encode("latin-1")
    if len(found) > 1:
        raise bad_request("access_token is given more than once.", QUERY_TOKEN)
    return found[0]


def secret_in_headers(request: Request) -> bytes | None:
    """Return the key in `Authorization: Bearer` or `X-API-Key`, byte by byte as it was sent."""
    line, alias = _once(request, "Authorization"), _once(request, "X-API-Key")
    scheme, _, bearer = (line or "").partition(" ")
    # Other schemes belong to a proxy in front of this server.
    shown = bearer.strip() if scheme.lower() == "bearer" else None
    alias = alias.strip() if alias is not None else None
    if shown is not None and alias is not None and shown != alias:
        raise bad_request("Authorization and X-API-Key have different keys; send one of them.", "Authorization")
    found = alias if shown is None else shown
    return None if found is None else found.encode("latin-1")


def _once(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once.", name)
    return values[0] if values else None
