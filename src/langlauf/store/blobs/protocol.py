"""The protocol of blob storage: keys and bytes, and the references of rows to them.

A key has segments with slashes between, as `names.py` makes them. Every failure of the storage raises
`StoreUnavailable`; its message is for operators and may name the storage.
"""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

#: The most keys of a page of a listing, and so of one delete.
KEYS_PER_PAGE = 500


class Listed(NamedTuple):
    """A blob in a listing, with the time of its write in seconds since 1970, by the clock of the storage."""

    key: str
    written_at: float


class Blobs(Protocol):
    """Bytes by key. Writing the same bytes again changes nothing."""

    async def put(self, key: str, data: bytes | memoryview) -> None:
        """Store the bytes atomically; when it returns they survive a crash."""

    async def get(self, key: str, *, at_most: int) -> bytes | None:
        """Return the bytes, or None where there is no blob; `at_most` + 1 bytes where it is larger."""

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:
        """Return so many bytes from a position, or fewer at the end; None where there is no blob."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete blobs; missing ones are ignored."""

    def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        """Yield all blobs under a prefix in pages, unordered. Concurrent changes may be missed."""

    async def check(self) -> None:
        """Raise `SettingsError` where the storage can never be used, `StoreUnavailable` where it does not answer."""

    async def close(self) -> None:
        """Close it."""


# -- names of blobs ----------------------------------------------------------------------------------------------------
# The reference says what the bytes are, `blob:sha256:<digest>:<size>`, and not where they are: the storage may move.
# The key is `<store>/<org>/<job>/<digest>`. Within a job the same bytes are stored once; jobs share nothing:
# removing a job's blobs touches no other job, and the blobs of an org have one prefix.

_REF = re.compile(r"blob:sha256:([0-9a-f]{64}):([0-9]{1,18})")
_PLAIN = re.compile(r"[a-z0-9_-]{1,128}")
_ESCAPED = "="
#: A digest, with a suffix while the file is being written.
_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f-]{36})?")
#: The longest file name of common file systems.
_LONGEST_WORD = 255
#: The purpose of the secret that names the folder of a store: created once, the same in every process.
IDENTITY = "blobs"
_PURPOSE = b"langlauf blobs\0"
_STORE_DIGITS = 32


class Ref(NamedTuple):
    """The digest and size of a payload."""

    digest: str
    size: int

    def __str__(self) -> str:
        return f"blob:sha256:{self.digest}:{self.size}"

    def fits(self, data: bytes) -> bool:
        """Whether these bytes match."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.digest


def ref_of(data: bytes | memoryview) -> Ref:
    """Return the reference of some bytes."""
    return Ref(hashlib.sha256(data).hexdigest(), len(data))


def read_ref(text: str) -> Ref | None:
    """Return the reference in a row; None where its format is unknown."""
    match = _REF.fullmatch(text)
    return Ref(match[1], int(match[2])) if match else None


class BlobKey(NamedTuple):
    """The parts of a blob's key. `name` is its digest, or the name of an incomplete file."""

    store: str
    org_id: str
    job_id: str
    name: str

    @property
    def key(self) -> str:
        """The key, unique whatever the ids contain."""
        return "/".join((self.store, escape_segment(self.org_id), escape_segment(self.job_id), self.name))

    @property
    def nameable(self) -> bool:
        """Whether its parts are short enough for a file name: an imported job may have any id."""
        return all(len(escape_segment(word)) <= _LONGEST_WORD for word in (self.org_id, self.job_id))


def read_key(key: str) -> BlobKey | None:
    """Return the parts of a key; None for a foreign key, which must not be removed."""
    words = key.split("/")
    if len(words) != len(BlobKey._fields):
        return None
    store, org, job, name = words
    org_id, job_id = unescape_segment(org), unescape_segment(job)
    if org_id is None or job_id is None or not _NAME.fullmatch(name):
        return None
    return BlobKey(store, org_id, job_id, name)


def escape_segment(text: str) -> str:
    """Return an id as one path segment: no traversal, and unique also on case-insensitive file systems."""
    if _PLAIN.fullmatch(text):
        return text
    return _ESCAPED + base64.b32encode(text.encode()).decode().rstrip("=").lower()


def unescape_segment(word: str) -> str | None:
    """Return the id of a path segment; None where it encodes none."""
    if not word.startswith(_ESCAPED):
        return word if _PLAIN.fullmatch(word) else None
    letters = word[1:].upper()
    try:
        text = base64.b32decode(letters + "=" * (-len(letters) % 8)).decode()
    except ValueError:  # no base32, or no text behind it
        return None
    return text if escape_segment(text) == word else None


def store_name(secret: bytes) -> str:
    """Return the folder of one store: other stores in the same storage do not see it as garbage."""
    return hashlib.sha256(_PURPOSE + secret).hexdigest()[:_STORE_DIGITS]


def folder_of(rows: Callable[..., Iterable[Any]]) -> str:
    """Return the folder of a store's blobs; a store that never had blobs has no secret, and `none` never exists."""
    found = [secret for (secret,) in rows("kept_secret", purpose=IDENTITY)]
    return store_name(bytes(found[0])) if found else "none"
