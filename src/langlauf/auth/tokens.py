"""Tokens for one job: what an org gives to a page of its own, so that a browser sees that job and nothing else.

A token is signed and not stored: it names its org, its job, its end, and the key it was made with. Whoever checks it
asks whether that key is still good, so revoking the key ends its tokens, and there is nothing to clean up."""

import base64
import binascii
import hashlib
import hmac
from typing import Generic, NamedTuple, TypeVar

import msgspec

from langlauf.auth.caller import Caller
from langlauf.auth.keyring import Authenticator
from langlauf.domain.access import Grant, Scope
from langlauf.domain.instant import Instant, after
from langlauf.store.admin import AccessStore

T = TypeVar("T", bound=msgspec.Struct)
#: No statement of ours is longer; what is needs no further look.
LONGEST = 1_024


class SignedClaims(Generic[T]):
    """Signs and reads statements of one kind. The prefix is part of what is signed: kinds cannot be mixed up."""

    def __init__(self, kind: type[T], prefix: str, secret: bytes) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._prefix = prefix
        self._secret = secret

    def write(self, statement: T) -> str:
        """The statement as text."""
        said = self._prefix + _text(msgspec.json.encode(statement))
        return f"{said}.{self._sign(said)}"

    def read(self, text: str) -> T | None:
        """The statement in a text that was signed here; None for any other text."""
        said, _, signature = text[:LONGEST].rpartition(".")
        expected = self._sign(said)
        # Always one signature and one comparison, whatever was sent.
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
    """A word that only this deployment can make about something, such as the form of a session."""
    return _text(hmac.digest(secret, f"{purpose} {about}".encode(), hashlib.sha256))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


PREFIX = "llt_"
#: What a token lives unless something else is asked for, and at the most.
USUAL_SECONDS = 3_600.0
LONGEST_SECONDS = 86_400.0
_PURPOSE = "job tokens"


class JobTokenClaims(msgspec.Struct, frozen=True, array_like=True):
    """What a token says."""

    issuer: str
    org_id: str
    job_id: str
    expires_at: Instant
    #: whether it may also stop the job
    cancel: bool = False


class IssuedToken(NamedTuple):
    """A new token, and when it ends."""

    text: str
    expires_at: Instant


class JobTokens:
    """Makes tokens, and tells what one stands for."""

    def __init__(self, access: Authenticator, store: AccessStore) -> None:
        self._access = access
        self._store = store
        self._statements: SignedClaims[JobTokenClaims] | None = None

    async def _signed(self) -> SignedClaims[JobTokenClaims]:
        if self._statements is None:
            self._statements = SignedClaims(JobTokenClaims, PREFIX, await self._store.signing_secret(_PURPOSE))
        return self._statements

    async def make(self, caller: Caller, job_id: str, seconds: float, *, cancel: bool = False) -> IssuedToken:
        """A token for a job that the caller can see. It ends with what the caller came with, at the latest.

        With `cancel` it also stops that job, as long as the key behind it may.
        """
        grant = caller.grant
        if grant is None:
            raise ValueError("a token is made by somebody who came with a key")
        expires_at = after(self._access.now(), seconds)
        if grant.expires_at is not None:
            expires_at = min(expires_at, grant.expires_at)
        token = JobTokenClaims(grant.issuer, caller.org_id, job_id, expires_at, cancel)
        return IssuedToken((await self._signed()).write(token), expires_at)

    async def grant(self, text: str) -> Grant | None:
        """What a token stands for; None where it is not ours, is over, or the key behind it is."""
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
