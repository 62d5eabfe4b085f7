"""What a caller may do, and how often: scopes, grants and API keys, and rate limiting by the GCRA.

The text of a key is its id, a secret and a checksum in one word, `llk_…`: secret scanners recognise its prefix, and a
typing error is found without a lookup. Only its SHA-256 is stored. The secret has 190 random bits, so a slow hash would
cost time and add nothing.
"""

import hashlib
import math
import re
import zlib
from enum import StrEnum

import msgspec

from langlauf.domain.instant import Instant


class Scope(StrEnum):
    """A permission. Every operation of the API requires one, or is public."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    #: manage the org itself
    ADMIN = "admin"
    #: see the stack traces of failed attempts
    DEBUG = "debug"
    #: read over all orgs: for the operator only, never for a key
    OPERATE = "operate"


#: The scopes of the operator, and of every caller of a store without keys.
ALL_SCOPES = frozenset(Scope)
#: The scopes that a key can have.
GRANTABLE_SCOPES = ALL_SCOPES - {Scope.OPERATE}
#: The scopes of a key unless others are requested.
DEFAULT_SCOPES = frozenset({Scope.SUBMIT, Scope.READ, Scope.CANCEL})
#: The issuer of callers of a store without keys.
OPEN_ISSUER = "open"
#: The issuer of callers with nothing but an id, under capability access.
CAPABILITY_ISSUER = "anybody"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid credential allows."""

    #: the id of a key, the operator's token, or `OPEN_ISSUER` in a store without keys
    issuer: str
    #: None: any org that the caller names
    org_id: str | None
    scopes: frozenset[Scope]
    expires_at: Instant | None = None
    #: set if it is for one job only
    job_id: str | None = None
    #: set if it is the session of a signed-in person
    session_id: str | None = None
    #: a valid credential of the same org that came along although an id is enough: requests count against it
    shown: "Grant | None" = None

    @property
    def key_id(self) -> str | None:
        """Return the id of the key behind it, or None."""
        return self.issuer if self.issuer.startswith("llk_") else None

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Return the rate limit buckets that it counts against within its org, from the widest down.

        A key counts against its org only, as the operator's token does. Credentials derived from one have buckets of
        their own: a session, all tokens of a key together, and those for one job; so have all callers with nothing but
        an id.
        """
        if self.shown is not None:
            return self.shown.counted_as
        if self.session_id is not None:
            return (f"session {self.session_id}",)
        if self.job_id is None:
            return ()
        all_of_them = (
            CAPABILITY_ISSUER if self.issuer == CAPABILITY_ISSUER else f"tokens of {self.key_id or self.issuer}"
        )
        return (all_of_them, f"job {self.job_id}")

    @property
    def guessable(self) -> bool:
        """Whether a person chose the credential: the operator's token. All others are random or signed."""
        drawn = (self.key_id, self.job_id, self.session_id)
        return self.issuer not in (OPEN_ISSUER, CAPABILITY_ISSUER) and not any(drawn)


#: Characters of keys: a double click selects the whole word, and none needs escaping.
KEY_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY_PREFIX = "llk_"
ID_LENGTH = 12
#: 32 of 62 characters: 190 bits
SECRET_LENGTH = 32
CHECKSUM_LENGTH = 6
_ID_END = len(KEY_PREFIX) + ID_LENGTH
_BODY_END = _ID_END + SECRET_LENGTH
_KEY_ID = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_KEY_TEXT = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH}}}", re.ASCII)
#: The longest name of a key.
LONGEST_KEY_NAME = 100


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as admins of its org see it. Its text starts with its id."""

    key_id: str
    org_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    #: accurate to about a minute
    last_used_at: Instant | None = None

    def live(self, now: Instant) -> bool:
        """Whether the key is valid now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class HashedKey(msgspec.Struct, frozen=True):
    """A key with the hash of its text."""

    key: ApiKey
    secret_hash: str


class KeyChanges(msgspec.Struct, frozen=True):
    """Keys created or revoked since a version. Version 0: no key was ever created."""

    version: int
    changed: list[HashedKey]


def key_text(key_id: str, secret: str) -> str:
    """Return the text of a key, which is shown once."""
    body = key_id + secret
    return body + _checksum(body)


def key_id_of(text: str) -> str | None:
    """Return the id in the text of a key, or None if it is not a valid text."""
    if _KEY_TEXT.fullmatch(text) is None or _checksum(text[:_BODY_END]) != text[_BODY_END:]:
        return None
    return text[:_ID_END]


def is_key_id(text: str) -> bool:
    """Whether this can be the id of a key."""
    return _KEY_ID.fullmatch(text) is not None


def hash_key(text: bytes) -> str:
    """Return the hash under which a key's text is stored."""
    return hashlib.sha256(text).hexdigest()


def _checksum(body: str) -> str:
    number, letters = zlib.crc32(body.encode("ascii")), ""
    for _ in range(CHECKSUM_LENGTH):
        number, place = divmod(number, len(KEY_ALPHABET))
        letters = KEY_ALPHABET[place] + letters
    return letters


# -- rates -------------------------------------------------------------------------------------------------------------
# One number per caller is enough: the time at which its quota is full again. A caller may be ahead of the clock by one
# window; each request moves that time by the share of one. So the quota can be used at once, refills evenly, and does
# not accumulate beyond the window.

_RATE = re.compile(r"^(\d{1,9})/(\d{0,6})([smhd])$")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Rate(msgspec.Struct, frozen=True):
    """A quota per window of seconds."""

    quota: int
    window: int

    def __str__(self) -> str:
        return f"{self.quota}/{self.window}s"


class RateStatus(msgspec.Struct, frozen=True):
    """The state of a caller's quota after a request."""

    allowed: bool
    #: requests left right now
    remaining: int
    #: whole seconds until the quota is full again; if nothing is left, until the next request is allowed
    seconds: int
    #: when the quota is full again: all that is stored
    full_at: float


def read_rate(text: str) -> Rate:
    """Parse a rate like `20/s`, `100/1m` or `1000/24h`."""
    match = _RATE.match(text.strip())
    if match is None:
        raise ValueError("give a rate like 20/s, 100/1m or 1000/24h")
    rate = Rate(int(match[1]), int(match[2] or 1) * _SECONDS[match[3]])
    if rate.quota < 1 or rate.window < 1:
        raise ValueError("must allow at least 1 in at least 1 s")
    return rate


def take_one(rate: Rate, full_at: float, now: float) -> RateStatus:
    """Take one request from a quota that is full again at `full_at`; a refusal costs nothing."""
    share = rate.window / rate.quota
    full_at = max(full_at, now)
    allowed = full_at + share - now <= rate.window + _ROUNDING
    if allowed:
        full_at += share
    ahead = full_at - now
    remaining = max(0, math.floor((rate.window - ahead) / share + _ROUNDING))
    until = ahead if remaining else ahead + share - rate.window
    return RateStatus(allowed, remaining, max(1, math.ceil(until - _ROUNDING)), full_at)


#: Sums of fractions are not exact: a caller is not refused for the last bit.
_ROUNDING = 1e-6
