"""How blobs are called: the reference in a row, and the key under which the bytes lie.

The reference says what the bytes are, `blob:sha256:<digest>:<size>`, and nothing of where they are: the place may move.
The key is `<store>/<org>/<job>/<digest>`. Within a job the same bytes lie there once; between jobs nothing is shared:
removing a job's blobs touches nobody else's, and those of an org lie under one prefix.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

_REF = re.compile(r"blob:sha256:([0-9a-f]{64}):([0-9]{1,18})")
_PLAIN = re.compile(r"[a-z0-9_-]{1,128}")
_ESCAPED = "="
#: A digest, and what follows it while a file is being written.
_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f-]{36})?")
#: What file systems allow for one name.
_LONGEST_WORD = 255
#: What a store keeps a secret for, from which its folder is named: made once, the same in every process ever after.
IDENTITY = "blobs"
_PURPOSE = b"langlauf blobs\0"
_STORE_DIGITS = 32


class Ref(NamedTuple):
    """What a payload is, byte for byte."""

    digest: str
    size: int

    def __str__(self) -> str:
        return f"blob:sha256:{self.digest}:{self.size}"

    def fits(self, data: bytes) -> bool:
        """Whether these are the bytes."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.digest


def ref_of(data: bytes) -> Ref:
    """The reference of some bytes."""
    return Ref(hashlib.sha256(data).hexdigest(), len(data))


def read_ref(text: str) -> Ref | None:
    """The reference in a row; None where it is none of ours."""
    match = _REF.fullmatch(text)
    return Ref(match[1], int(match[2])) if match else None


class BlobKey(NamedTuple):
    """Where a blob lies. `name` is its digest, or that of a file which never became whole."""

    store: str
    org_id: str
    job_id: str
    name: str

    @property
    def key(self) -> str:
        """The key, which nothing else has, whatever the ids are."""
        return "/".join((self.store, escaped(self.org_id), escaped(self.job_id), self.name))

    @property
    def nameable(self) -> bool:
        """Whether its words are short enough: an imported job may have any id."""
        return all(len(escaped(word)) <= _LONGEST_WORD for word in (self.org_id, self.job_id))


def read_key(key: str) -> BlobKey | None:
    """The place behind a key; None where it is none of ours, and so not ours to remove."""
    words = key.split("/")
    if len(words) != len(BlobKey._fields):
        return None
    store, org, job, name = words
    org_id, job_id = unescaped(org), unescaped(job)
    if org_id is None or job_id is None or not _NAME.fullmatch(name):
        return None
    return BlobKey(store, org_id, job_id, name)


def escaped(text: str) -> str:
    """An id as one word of a key: it cannot lead elsewhere, and no other id has it, also where case does not count."""
    if _PLAIN.fullmatch(text):
        return text
    return _ESCAPED + base64.b32encode(text.encode()).decode().rstrip("=").lower()


def unescaped(word: str) -> str | None:
    """The id behind a word; None where no id is written so."""
    if not word.startswith(_ESCAPED):
        return word if _PLAIN.fullmatch(word) else None
    letters = word[1:].upper()
    try:
        text = base64.b32decode(letters + "=" * (-len(letters) % 8)).decode()
    except ValueError:  # no base32, or no text behind it
        return None
    return text if escaped(text) == word else None


def store_name(secret: bytes) -> str:
    """The folder of one store: another store on the same place sees nothing of it, and cannot take it for garbage."""
    return hashlib.sha256(_PURPOSE + secret).hexdigest()[:_STORE_DIGITS]


def folder_of(rows: Callable[..., Iterable[Any]]) -> str:
    """The folder of a store's blobs; a store that never had one has no secret either, and no such folder exists."""
    found = [secret for (secret,) in rows("read_secret", purpose=IDENTITY)]
    return store_name(bytes(found[0])) if found else "none"
