"""Scopes, grants and API keys: what a caller may do, and which credential allows it.

The text of a key is its id, a secret and a checksum in one word, `llk_…`: secret scanners recognise its prefix, and a
typing error is found without a lookup. Only its SHA-256 is stored. The secret has 190 random bits, so a slow hash would
cost time and add nothing.
"""

import hashlib
import re
import zlib
from enum import StrEnum

import msgspec

from langlauf.domain.instant import Instant


class Scope(StrEnum):
    """One kind of thing to do. Every operation of the API needs one of them, or is open to everybody."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    #: to manage the org itself
    ADMIN = "admin"
    #: to look over all orgs: the operator's alone, never a key's
    OPERATE = "operate"


#: What an operator may do, and everybody where nobody is asked for a key.
ALL_SCOPES = frozenset(Scope)
#: What a key can be given.
GRANTABLE_SCOPES = ALL_SCOPES - {Scope.OPERATE}
#: What a key has unless something else is asked for.
DEFAULT_SCOPES = frozenset({Scope.SUBMIT, Scope.READ, Scope.CANCEL})
#: Who vouches for callers where nobody is asked for a key.
OPEN_ISSUER = "open"
#: Who vouches for a caller who has an id, where an id is enough.
CAPABILITY_ISSUER = "anybody"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a credential stands for, once it was found to be good."""

    #: who vouches: the id of a key, the operator's token, or nobody in an open store
    issuer: str
    #: None: any org the caller names
    org_id: str | None
    scopes: frozenset[Scope]
    expires_at: Instant | None = None
    #: where it is about one job alone
    job_id: str | None = None
    #: where a person signed in with it
    session_id: str | None = None
    #: a good credential of the same org that was shown although an id is enough: its requests count for that
    shown: "Grant | None" = None

    @property
    def key_id(self) -> str | None:
        """The key behind it, where there is one."""
        return self.issuer if self.issuer.startswith("llk_") else None

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Whom it counts for within its org, from the widest down.

        A key counts for its org alone, as the operator's token does. What is handed out with one has a part: a session,
        all tokens together, and of them those for one job; so have all who hold no more than an id.
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
    def operator(self) -> bool:
        """Whether it is the operator's token, or a session begun with it; no key is, nor a caller of an open store."""
        return Scope.OPERATE in self.scopes and self.issuer not in (OPEN_ISSUER, CAPABILITY_ISSUER)

    @property
    def guessable(self) -> bool:
        """Whether somebody thought out what was shown: the operator's token. All else is drawn by chance, or signed."""
        drawn = (self.key_id, self.job_id, self.session_id)
        return self.issuer not in (OPEN_ISSUER, CAPABILITY_ISSUER) and not any(drawn)


#: Letters and digits of keys: a double click selects the whole word, and nothing in it needs escaping anywhere.
KEY_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY_PREFIX = "llk_"
ID_LENGTH = 12
#: 32 of 62 letters: 190 bits
SECRET_LENGTH = 32
CHECKSUM_LENGTH = 6
_ID_END = len(KEY_PREFIX) + ID_LENGTH
_BODY_END = _ID_END + SECRET_LENGTH
_KEY_ID = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_TEXT = re.compile(rf"{KEY_PREFIX}[0-9A-Za-z]{{{ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH}}}", re.ASCII)
#: How long the name of a key may be.
LONGEST_KEY_NAME = 100


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as its org's admins see it. Its id is also how its text begins."""

    key_id: str
    org_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    #: to about a minute
    last_used_at: Instant | None = None

    def live(self, now: Instant) -> bool:
        """Whether it opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class HashedKey(msgspec.Struct, frozen=True):
    """A key with the hash that its text must have."""

    key: ApiKey
    secret_hash: str


class KeyChanges(msgspec.Struct, frozen=True):
    """Keys that were made or revoked past a version. Version 0: there never was a key."""

    version: int
    changed: list[HashedKey]


def key_text(key_id: str, secret: str) -> str:
    """The text of a key; it is shown once."""
    body = key_id + secret
    return body + _checksum(body)


def key_id_of(text: str) -> str | None:
    """The id in the text of a key, None where it cannot be one."""
    if _TEXT.fullmatch(text) is None or _checksum(text[:_BODY_END]) != text[_BODY_END:]:
        return None
    return text[:_ID_END]


def is_key_id(text: str) -> bool:
    """Whether this can be the id of a key."""
    return _KEY_ID.fullmatch(text) is not None


def hash_key(text: bytes) -> str:
    """What is stored of a key's text."""
    return hashlib.sha256(text).hexdigest()


def _checksum(body: str) -> str:
    number, letters = zlib.crc32(body.encode("ascii")), ""
    for _ in range(CHECKSUM_LENGTH):
        number, place = divmod(number, len(KEY_ALPHABET))
        letters = KEY_ALPHABET[place] + letters
    return letters
