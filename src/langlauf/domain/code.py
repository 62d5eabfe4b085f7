"""The version of an analysis' code that ran a job, with what it ran on: stored once, and referenced by jobs."""

import hashlib

import msgspec

#: How a version begins that stands for a declared one.
DERIVED = "code-"
_KEY_BYTES = 6


class CodeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis as one host runs it."""

    analysis: str
    #: as declared, else derived from the hash of the code and the version of its package
    version: str
    #: SHA-256 of the function's source
    code_hash: str
    #: name and version of the distribution that has the function
    package: str | None
    langlauf: str
    python: str
    host: str

    @property
    def key(self) -> int:
        """A number made from all of it: the same in every store, so that copies need no translation."""
        digest = hashlib.sha256(msgspec.json.encode(self)).digest()
        return int.from_bytes(digest[:_KEY_BYTES], "big")


def derived_version(code_hash: str, package: str | None) -> str:
    """Return the version of an analysis that declares none."""
    return DERIVED + hashlib.sha256(f"{code_hash} {package or ''}".encode()).hexdigest()[:16]
