"""Keys: what is kept of one, and the text that its holder has.

A key's text is its id, a secret and a checksum in one word, `llk_…`: secret scanners know it by its beginning, and a
slip of the pen is found without looking it up. Its SHA-256 is all that is stored. The secret has far more chance in it
than anybody can try, so a slow hash would only cost time.
"""

import hashlib
import re
import zlib

import msgspec

from langlauf.domain.access import Scope
from langlauf.domain.instant import Instant

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
