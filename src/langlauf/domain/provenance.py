"""How a result came about: the code that ran its job, the trail that the record keeps, and the trace of the request."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.redact import clean_text

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


# -- trail of a job ----------------------------------------------------------------------------------------------------
# Sources that its function declared, and the attempts before the last one. They are rows among the job's chunks, under
# keys that no analysis may use: so they are written under the lease, copied, exported and removed like chunks, and kept
# as long as the job, while its log is not.

#: Keys of a trail begin with this.
TRAIL = "langlauf:"
SOURCES = f"{TRAIL}source"
_SOURCE = f"{SOURCES}:"
_ATTEMPT = f"{TRAIL}attempt:"
#: Stored once a job has declared more sources than are kept.
SOURCES_FULL = f"{TRAIL}sources_full"
MOST_SOURCES = 100
LONGEST_SOURCE_TEXT = 200
LONGEST_SOURCE_URL = 2_000


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What an analysis read, as its function declares it."""

    name: str
    version: str | None = None
    hash: str | None = None
    url: str | None = None

    @property
    def key(self) -> str:
        """The key of its row, made from all of it: declaring the same again changes nothing."""
        return _SOURCE + hashlib.sha256(self.payload.encode()).hexdigest()[:32]

    @property
    def payload(self) -> str:
        """JSON text."""
        return msgspec.json.encode(self).decode()


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over, with the host that ran it and the version of its code where they are known."""

    attempt: int
    started_at: Instant | None
    ended_at: Instant | None
    #: retried, lost or released; completed for the attempt whose result was reused
    outcome: str | None
    #: an error code
    why: str | None
    host: str | None
    version: str | None


class TrailEntry(NamedTuple):
    """A row of a trail."""

    key: str
    payload: str
    created_at: Instant


def declared_source(name: str, version: Any, hash_: Any, url: Any) -> Source:
    """Return a source of clean texts. A name or version is cut; part of a hash or an address would be another one."""
    if not str(name or "").strip():
        raise ValueError("job.source needs a name: job.source('Swiss gazetteer', version='2026-03')")
    return Source(
        name=_line(str(name), LONGEST_SOURCE_TEXT),
        version=None if version is None else _line(str(version), LONGEST_SOURCE_TEXT),
        hash=None if hash_ is None else _line(_bounded("hash", str(hash_), LONGEST_SOURCE_TEXT), LONGEST_SOURCE_TEXT),
        url=None if url is None else _line(_bounded("url", str(url), LONGEST_SOURCE_URL), LONGEST_SOURCE_URL),
    )


def _bounded(field: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise ValueError(f"job.source({field}=…) has at most {longest:,} characters, not {len(text):,}")
    return text


def _line(text: str, longest: int) -> str:
    return clean_text(" ".join(text.split()), longest)


def sources_in(trail: Sequence[TrailEntry]) -> list[Source]:
    """Return the sources of a trail, in the order in which they were declared."""
    found = [entry for entry in trail if entry.key.startswith(_SOURCE)]
    return [msgspec.json.decode(entry.payload, type=Source) for entry in sorted(found, key=_by_time)]


def is_complete(trail: Sequence[TrailEntry]) -> bool:
    """Whether a job has declared no more sources than are kept."""
    return all(entry.key != SOURCES_FULL for entry in trail)


def attempts_in(trail: Sequence[TrailEntry]) -> list[PastAttempt]:
    """Return the attempts of a trail by their numbers."""
    found = [entry.payload for entry in trail if entry.key.startswith(_ATTEMPT)]
    return sorted((msgspec.json.decode(text, type=PastAttempt) for text in found), key=lambda one: one.attempt)


def _by_time(entry: TrailEntry) -> Instant:
    return entry.created_at


# -- W3C trace context -------------------------------------------------------------------------------------------------

#: Version, trace id, parent span id, flags. A later version may have more fields.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION = "ff"
_OURS = "00"
#: Sampled, and random trace id. Unknown flags are not passed on.
_KNOWN_FLAGS = 0b11
_LONGEST_STATE = 512
_MOST_MEMBERS = 32
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class Trace(msgspec.Struct, frozen=True):
    """The trace context of a caller, in the form in which it is passed on."""

    trace_id: str
    traceparent: str
    #: opaque data of tracing systems
    tracestate: str | None = None


def read_trace(parents: Sequence[str], states: Sequence[str] = ()) -> Trace | None:
    """Return the trace context in the headers, or None if there is none or it is malformed."""
    match = _PARENT.fullmatch(parents[0].strip()) if len(parents) == 1 else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == _NO_VERSION or (version == _OURS and more) or not (trace_id.strip("0") and span_id.strip("0")):
        return None
    parent = f"{_OURS}-{trace_id}-{span_id}-{int(flags, 16) & _KNOWN_FLAGS:02x}"
    return Trace(trace_id, parent, _state(",".join(states)))


def _state(text: str) -> str | None:
    """Return the list without the oldest members that do not fit, which are last; None if any is malformed."""
    members = [member.strip() for member in text.split(",") if member.strip()]
    names = {member.partition("=")[0] for member in members}
    if len(members) > _MOST_MEMBERS or len(names) < len(members) or not all(map(_MEMBER.fullmatch, members)):
        return None
    while len(",".join(members)) > _LONGEST_STATE:
        members.pop()
    return ",".join(members) or None
